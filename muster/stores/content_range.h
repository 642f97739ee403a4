#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "muster/stores/http_client.h"

namespace muster::stores {

/// "bytes 0-9/100" in numbers; of "bytes */100" the total alone.
struct ContentRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t total = 0;
};

/// Nothing for what is no such header, or contradicts itself.
std::optional<ContentRange> parse_content_range(std::string_view text);

/// Whether an answer of status 206 is what was asked for, up to the end of the file.
bool is_range(const HttpResponse& response, std::uint64_t offset, std::uint64_t length);

}  // namespace muster::stores
