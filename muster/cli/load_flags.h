#pragma once

#include <optional>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::cli {

/// The flags of `muster load`.
struct LoadFlags {
  std::vector<std::string> models{};
  std::string server{};
  std::string protocol = "rest";
  std::string signature_name{};
  /// Lists of numbers.
  std::string rate{};
  std::string concurrency{};
  std::string arrivals = "poisson";
  double seconds = 10;
  /// 1, and none where --requests is given.
  std::optional<double> warm_up_seconds{};
  double deadline_seconds = 10;
  std::optional<std::uint64_t> requests{};
  std::size_t connections = 0;
  std::size_t threads = 1;
  std::size_t rows = 1;
  std::size_t distinct = 16;
  std::uint64_t seed = 0;
  std::vector<std::string> instances{};
  std::vector<std::string> recorded{};
  bool find_knee = false;
  double max_rate = 1e6;
  std::optional<double> max_p99_ms{};
  std::optional<double> max_error_percent{};
  std::string plot{};
  bool as_json = false;
};

void add_load_flags(CLI::App& command, LoadFlags& flags);

}  // namespace muster::cli
