#include "muster/platform/stores/content_range.h"

#include <algorithm>
#include <charconv>

namespace muster::stores {

std::optional<ContentRange> parse_content_range(std::string_view text) {
  ContentRange range;
  const auto number = [&text](std::uint64_t& out, std::string_view until) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.starts_with(until)) return false;
    text.remove_prefix(until.size());
    return true;
  };
  if (text.starts_with("bytes */")) {
    text.remove_prefix(8);
    if (!number(range.total, "") || !text.empty()) return std::nullopt;
    return range;
  }
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  if (!number(range.begin, "-") || !number(range.end, "/") || !number(range.total, "")) {
    return std::nullopt;
  }
  if (!text.empty() || range.end < range.begin || range.end >= range.total) return std::nullopt;
  return range;
}

std::string flaw_of_range(const HttpResponse& response, std::uint64_t offset,
                          std::uint64_t length) {
  if (response.status != 206) return "";
  const auto range = parse_content_range(response.header("content-range"));
  const bool is_right = range && range->begin == offset &&
                        range->end - range->begin + 1 == response.body.size() &&
                        range->end == std::min(offset + length, range->total) - 1;
  return is_right ? "" : "the range that came is not the one that was asked for";
}

std::uint64_t whole_bytes(const HttpResponse& response) {
  if (response.status != 206) return response.body.size();
  return parse_content_range(response.header("content-range"))->total;
}

std::string take_range(HttpResponse&& response, std::uint64_t offset, std::uint64_t length) {
  std::string bytes = std::move(response.body);
  if (response.status != 206) {
    bytes.erase(0, std::min<std::uint64_t>(offset, bytes.size()));
    bytes.resize(std::min<std::uint64_t>(length, bytes.size()));
  }
  return bytes;
}

}  // namespace muster::stores
