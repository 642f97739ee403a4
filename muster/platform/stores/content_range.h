#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/platform/stores/http_client.h"

namespace muster::stores {

/// "bytes 0-9/100" in numbers; of "bytes */100" the total alone.
struct ContentRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t total = 0;
};

/// Nothing for what is no such header, or contradicts itself.
std::optional<ContentRange> parse_content_range(std::string_view text);

/// The flaw of the range in a successful answer; empty for none. An answer that has no range has
/// all of the file.
std::string flaw_of_range(const HttpResponse& response, std::uint64_t offset, std::uint64_t length);

/// Bytes of the whole file, after an answer without a flaw.
std::uint64_t whole_bytes(const HttpResponse& response);

/// The bytes asked for, also from a server that has no ranges and sent everything.
std::string take_range(HttpResponse&& response, std::uint64_t offset, std::uint64_t length);

}  // namespace muster::stores
