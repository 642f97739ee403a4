#include "muster/base/base64.h"

#include <array>
#include <cstdint>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> make_values() {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}
constexpr auto kValues = make_values();

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view piece = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t b = 0; b < 3; ++b) {
      bits = bits << 8 | (b < piece.size() ? static_cast<unsigned char>(piece[b]) : 0U);
    }
    for (std::size_t c = 0; c < 4; ++c) {
      text += c <= piece.size() ? kAlphabet[bits >> (18 - 6 * c) & 63U] : '=';
    }
  }
  return text;
}

std::string base64_decode(std::string_view text) {
  std::string_view body = text;
  for (int i = 0; i < 2 && body.ends_with('='); ++i) body.remove_suffix(1);
  if (body.size() % 4 == 1)
    throw InvalidArgument("base64 text of an impossible length: {}", text.size());
  std::string bytes;
  bytes.reserve(body.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const int value = kValues[static_cast<unsigned char>(body[i])];
    if (value < 0) throw InvalidArgument("not a character of base64 at place {}", i);
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count);
    }
  }
  return bytes;
}

}  // namespace muster
