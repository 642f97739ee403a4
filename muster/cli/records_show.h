#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace muster::cli {

struct RecordsShowOptions {
  std::string file{};
  std::uint64_t limit = 10;
  std::uint64_t skip = 0;
  std::uint64_t values = 8;
  std::string query{};
  bool as_json = false;
};

/// Text as it is in quotes; anything else as hexadecimal, cut to what a line holds.
std::string preview_of(std::string_view bytes);
/// JSON has no bytes: text stays text, other bytes become {"hex": ...}.
nlohmann::json bytes_to_json(std::string_view bytes);

/// Prints rows of a table: Parquet, JSON lines, a query.
void show_table(const RecordsShowOptions& options);

}  // namespace muster::cli
