#include "muster/platform/cluster/slurm_node_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "muster/base/error.h"
#include "muster/platform/cluster/placement_internal.h"

namespace muster {
namespace {

using internal::in_quotes;

// The longest name of a host.
constexpr std::size_t kMostNameBytes = 255;

std::optional<std::uint64_t> to_number(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// The text up to a comma that stands outside brackets; cuts it off `rest`.
std::string_view take_item(std::string_view& rest) {
  int depth = 0;
  std::size_t i = 0;
  for (; i < rest.size() && (rest[i] != ',' || depth > 0); ++i) {
    if (rest[i] == '[') ++depth;
    if (rest[i] == ']') --depth;
  }
  const std::string_view item = rest.substr(0, i);
  rest.remove_prefix(std::min(i + 1, rest.size()));
  return item;
}

class Expansion {
 public:
  Expansion(std::string_view list, std::size_t most) : list_(list), most_(most) {}

  std::vector<std::string> run() {
    std::string_view rest = list_;
    if (rest.empty() || rest.back() == ',') fail("a name is missing");
    while (!rest.empty()) expand("", take_item(rest));
    return std::move(hosts_);
  }

 private:
  [[noreturn]] void fail(std::string_view why) const {
    throw InvalidArgument("{} is no Slurm node list: {}", in_quotes(list_), why);
  }

  // `prefix` is done; `item` may still have brackets.
  void expand(const std::string& prefix, std::string_view item) {
    // Also bounds the recursion: every pair of brackets adds a digit.
    if (prefix.size() > kMostNameBytes)
      fail(fmt::format("a name of more than {} bytes", kMostNameBytes));
    const auto open = item.find('[');
    if (open == std::string_view::npos) return add(prefix + std::string(item));
    const auto close = item.find(']', open);
    if (close == std::string_view::npos) fail("a bracket is not closed");
    std::string_view ranges = item.substr(open + 1, close - open - 1);
    if (ranges.empty() || ranges.back() == ',') fail("a number is missing in the brackets");
    const std::string before = prefix + std::string(item.substr(0, open));
    while (!ranges.empty()) expand_range(before, take_item(ranges), item.substr(close + 1));
  }

  void expand_range(const std::string& before, std::string_view range, std::string_view after) {
    const auto dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
    const auto low = to_number(first);
    const auto high = to_number(last);
    if (!low || !high || *high < *low) fail(fmt::format("{} is no range", in_quotes(range)));
    if (*high - *low >= most_) fail(fmt::format("more than {} hosts", most_));
    for (std::uint64_t n = *low; n <= *high; ++n) {
      expand(fmt::format("{}{:0{}}", before, n, first.size()), after);
    }
  }

  void add(std::string host) {
    const bool plain = std::none_of(host.begin(), host.end(), [](unsigned char c) {
      return c <= ' ' || c == 0x7f || c == '[' || c == ']' || c == '/' || c == ':' || c == '"';
    });
    if (host.empty() || host.size() > kMostNameBytes || !plain)
      fail(fmt::format("{} is no host name", in_quotes(host)));
    if (hosts_.size() >= most_) fail(fmt::format("more than {} hosts", most_));
    hosts_.push_back(std::move(host));
  }

  std::string_view list_;
  std::size_t most_;
  std::vector<std::string> hosts_;
};

}  // namespace

std::vector<std::string> expand_slurm_node_list(std::string_view list, std::size_t most) {
  return Expansion(list, most).run();
}

std::vector<std::size_t> expand_slurm_counts(std::string_view counts, std::size_t most) {
  const auto fail = [&]() {
    throw InvalidArgument("{} is no list of tasks per node such as \"2(x3),1\"", in_quotes(counts));
  };
  std::vector<std::size_t> list;
  std::string_view rest = counts;
  if (rest.empty() || rest.back() == ',') fail();
  while (!rest.empty()) {
    const std::string_view item = take_item(rest);
    const auto open = item.find("(x");
    const auto count = to_number(item.substr(0, open));
    std::optional<std::uint64_t> times = 1;
    if (open != std::string_view::npos) {
      if (item.back() != ')') fail();
      times = to_number(item.substr(open + 2, item.size() - open - 3));
    }
    if (!count || !times || *count > most || *times > most - list.size()) fail();
    list.insert(list.end(), *times, *count);
  }
  return list;
}

}  // namespace muster
