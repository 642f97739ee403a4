#include "muster/data/summary/event_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/record_reader.h"

namespace muster {
namespace {

constexpr std::string_view kMarker = "tfevents.";
constexpr std::string_view kVersionPrefix = "brain.Event:";

// Names sort by their seconds as numbers: other programs may write more or fewer digits.
std::pair<std::uint64_t, std::string> order_of(const Path& path) {
  std::string name = path.filename().string();
  const std::size_t digits = name.find(kMarker) + kMarker.size();
  std::uint64_t seconds = 0;
  std::from_chars(name.data() + digits, name.data() + name.size(), seconds);
  return {seconds, std::move(name)};
}

std::vector<Path> files_at(const Path& path) {
  const auto status = file_system_for(path).status(path);
  if (!status) throw NotFound("no such file or folder: {}", path.string());
  if (!status->is_directory) return {path};
  auto files = event_files(path);
  if (files.empty()) {
    throw NotFound("no event file in {}; evaluation writes below it, into eval or eval_<name>",
                   path.string());
  }
  return files;
}

}  // namespace

std::vector<Path> event_files(const Path& folder) {
  std::vector<Path> files;
  for (const auto& name : file_system_for(folder).list(folder)) {
    if (name.find(kMarker) == std::string::npos) continue;
    const Path path = folder / name;
    const auto status = file_system_for(path).status(path);
    if (status && !status->is_directory) files.push_back(path);
  }
  std::sort(files.begin(), files.end(),
            [](const Path& a, const Path& b) { return order_of(a) < order_of(b); });
  return files;
}

struct EventReader::Impl {
  std::vector<Path> files;
  std::size_t next_file = 0;
  Path path;
  std::optional<RecordReader> reader;
  std::size_t torn_tails = 0;

  bool open_next() {
    if (next_file == files.size()) return false;
    path = files[next_file++];
    reader.emplace(path, RecordReaderOptions{.compression = Compression::kNone});
    return true;
  }

  // A live file is flushed in the middle of a record now and then.
  std::optional<std::string_view> next_record() {
    try {
      return reader->next();
    } catch (const TornTail&) {
      ++torn_tails;
      return std::nullopt;
    }
  }

  Event decode(std::string_view bytes, std::uint64_t number, std::uint64_t offset) const {
    try {
      Event event = decode_event(bytes);
      const auto* version = std::get_if<FileVersion>(&event.what);
      if (number == 0 && (version == nullptr || !version->version.starts_with(kVersionPrefix))) {
        throw DataLoss("no event file: its first record does not say \"{}\"", kEventFileVersion);
      }
      return event;
    } catch (Error& error) {
      error.add_context(fmt::format("{} record {} at byte {}", path.string(), number, offset));
      throw;
    }
  }

  std::optional<Event> next() {
    for (;;) {
      if (!reader && !open_next()) return std::nullopt;
      const std::uint64_t number = reader->record_number();
      const std::uint64_t offset = reader->offset();
      if (const auto bytes = next_record()) return decode(*bytes, number, offset);
      reader.reset();
    }
  }
};

EventReader::EventReader(const Path& file_or_folder) : impl_(std::make_unique<Impl>()) {
  impl_->files = files_at(file_or_folder);
  impl_->path = impl_->files.front();
}

EventReader::~EventReader() = default;
EventReader::EventReader(EventReader&&) noexcept = default;
EventReader& EventReader::operator=(EventReader&&) noexcept = default;

std::optional<Event> EventReader::next() { return impl_->next(); }
const Path& EventReader::path() const { return impl_->path; }
std::size_t EventReader::torn_tails() const { return impl_->torn_tails; }

}  // namespace muster
