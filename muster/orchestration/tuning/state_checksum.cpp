#include <fmt/core.h>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/orchestration/tuning/state_checksum.h"

namespace muster::tuning {
namespace {

constexpr std::string_view kBefore = R"(,"crc32c":")";
constexpr std::string_view kZeros = "00000000";
constexpr std::string_view kAfter = "\"}\n";

std::string digits_of(std::string_view text) { return fmt::format("{:08x}", crc32c(text)); }

}  // namespace

std::string with_checksum(std::string_view json) {
  const auto end = json.rfind('}');
  if (end == std::string_view::npos || json.find(':') > end) {
    throw InvalidArgument("a checksum is for JSON objects with fields");
  }
  std::string text = fmt::format("{}{}{}{}", json.substr(0, end), kBefore, kZeros, kAfter);
  const std::string digits = digits_of(text);
  return text.replace(end + kBefore.size(), digits.size(), digits);
}

void check_checksum(std::string_view json) {
  const std::size_t behind = kZeros.size() + kAfter.size();
  const bool has_checksum =
      json.size() > behind + kBefore.size() && json.ends_with(kAfter) &&
      json.substr(json.size() - behind - kBefore.size(), kBefore.size()) == kBefore;
  if (!has_checksum) {
    throw DataLoss(
        "damaged: it does not end with its checksum; remove it and the files of later "
        "trials, and these run again");
  }
  const std::size_t place = json.size() - behind;
  const std::string found(json.substr(place, kZeros.size()));
  const std::string wanted = digits_of(std::string(json).replace(place, kZeros.size(), kZeros));
  if (found == wanted) return;
  throw DataLoss(
      "damaged: its checksum is {}, but its bytes have {}; remove it and the files of "
      "later trials, and these run again",
      found, wanted);
}

}  // namespace muster::tuning
