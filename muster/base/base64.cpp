#include "muster/base/base64.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// OpenSSL counts in int: bytes and characters that it is given at a time.
constexpr std::size_t kMostBytes = std::size_t{3} << 28;
constexpr std::size_t kMostCharacters = std::size_t{4} << 28;

const unsigned char* unsigned_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // It ends with a NUL of OpenSSL's.
  auto* out = reinterpret_cast<unsigned char*>(text.data());
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kMostBytes))) {
    const std::string_view piece = bytes.substr(0, kMostBytes);
    out += EVP_EncodeBlock(out, unsigned_bytes(piece), static_cast<int>(piece.size()));
  }
  text.pop_back();
  return text;
}

std::string base64_decode(std::string_view text) {
  std::string_view body = text;
  for (int i = 0; i < 2 && body.ends_with('='); ++i) body.remove_suffix(1);
  if (body.size() % 4 == 1)
    throw InvalidArgument("base64 text of an impossible length: {}", text.size());
  std::string padded(body);
  padded.append((4 - body.size() % 4) % 4, '=');
  std::string bytes(padded.size() / 4 * 3, '\0');
  auto* out = reinterpret_cast<unsigned char*>(bytes.data());
  // OpenSSL drops blanks at both ends and takes '=' anywhere; here they are errors.
  bool good = body.find('=') == std::string_view::npos;
  for (std::string_view rest = padded; good && !rest.empty();) {
    const std::string_view piece = rest.substr(0, kMostCharacters);
    const int size = EVP_DecodeBlock(out, unsigned_bytes(piece), static_cast<int>(piece.size()));
    good = size == static_cast<int>(piece.size() / 4 * 3);
    if (good) out += size;
    rest.remove_prefix(piece.size());
  }
  if (!good) {
    throw InvalidArgument("not a character of base64 at place {}",
                          body.find_first_not_of(kAlphabet));
  }
  bytes.resize(body.size() * 3 / 4);
  return bytes;
}

}  // namespace muster
