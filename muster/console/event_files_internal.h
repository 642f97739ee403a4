#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/records/record_writer.h"
#include "muster/data/summary/event.h"

namespace muster::console {

/// For tests: the name of an event file.
inline constexpr const char* kEvents = "events.out.tfevents.1.here";

/// For tests: an event file with one scalar per step, as other programs write it.
inline void write_scalars(const std::filesystem::path& file, const std::string& tag,
                          const std::vector<std::pair<std::int64_t, float>>& values) {
  std::filesystem::create_directories(file.parent_path());
  RecordWriter writer(file, {.durable = false});
  writer.append(
      encode_event({.wall_time = 1, .what = FileVersion{std::string(kEventFileVersion)}}));
  for (const auto& [step, value] : values) {
    writer.append(encode_event({.wall_time = 100.0 + static_cast<double>(step),
                                .step = step,
                                .what = Summary{{.tag = tag, .data = value}}}));
  }
  writer.close();
}

}  // namespace muster::console
