// JSON lines: columns and types that are found in rows, and rows into columns.

#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/data/tables/json_lines.h"

namespace {

void check_json_block(const muster::TableBlock& block) {
  for (const muster::TableColumn& column : block.columns) {
    std::size_t count = block.rows;
    if (!column.splits.empty()) {
      if (column.splits.front().size() != count + 1) __builtin_trap();
      count = static_cast<std::size_t>(column.splits.front().back());
    }
    if (column.value_count() != count) __builtin_trap();
    if (!column.valid.empty() && column.valid.size() != count) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto reader = muster::open_json_lines(
        text, "fuzz.jsonl", {.guess_rows = 2, .block_rows = 3, .max_line_bytes = 4096});
    for (int failures = 0; failures < 4;) {
      try {
        const auto block = reader->next();
        if (!block) break;
        check_json_block(*block);
      } catch (const muster::Error&) {
        ++failures;  // A row that does not fit.
      }
    }
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  return {
      "{\"a\": 1, \"b\": [1.5, null], \"c\": {\"d\": \"x\"}}\n{\"a\": 2, \"b\": []}\n{\"a\": "
      "\"no\"}\n{\"c\": {\"d\": null}}\n",
      "\n{\"a\": true}\r\n{\"a\": null}\n{\"a\": false}\n",
      "{\"a\": 18446744073709551615, \"b\": 1e300}\n{\"a\": -9223372036854775808, \"b\": 3}\n",
      "{\"\\u00e9\": \"\\ud83d\\ude00\"}\n{\"\": [[1]]}\n"};
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {.bytes_per_input_byte = 400}; }
