#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/data/checkpoint/little_endian_internal.h"
#include "muster/data/checkpoint/string_tensor_internal.h"

namespace muster {
namespace {

// The checksum covers a length not as the varint that is stored, but as a number of 4 bytes, or 8
// for strings of 4 GiB and more.
std::uint32_t extend_by_length(std::uint32_t crc, std::uint64_t length) {
  if (length > UINT32_MAX) return crc32c(bytes_of(length), crc);
  const auto narrow = static_cast<std::uint32_t>(length);
  return crc32c(bytes_of(narrow), crc);
}

std::vector<std::uint64_t> take_lengths(std::string_view& rest, std::uint64_t count) {
  if (count > rest.size()) {
    throw DataLoss("{} strings cannot lie in {} bytes", count, rest.size());
  }
  std::vector<std::uint64_t> lengths(count);
  for (auto& length : lengths) {
    if (!take_varint(rest, length)) throw DataLoss("the lengths of the strings are torn");
  }
  return lengths;
}

}  // namespace

StringTensorHead string_tensor_head(std::span<const std::string_view> strings) {
  StringTensorHead head;
  for (const std::string_view text : strings) {
    append_varint(head.bytes, text.size());
    head.crc = extend_by_length(head.crc, text.size());
  }
  const std::uint32_t masked = mask_crc(head.crc);
  head.bytes.append(bytes_of(masked));
  head.crc = crc32c(bytes_of(masked), head.crc);
  return head;
}

std::vector<std::string_view> parse_string_tensor(std::string_view bytes, std::uint64_t count,
                                                  std::uint32_t masked_crc) {
  std::string_view rest = bytes;
  const std::vector<std::uint64_t> lengths = take_lengths(rest, count);
  std::uint32_t crc = 0;
  for (const std::uint64_t length : lengths) crc = extend_by_length(crc, length);
  if (rest.size() < 4 || load_u32(rest) != mask_crc(crc)) {
    throw DataLoss("the checksum of the strings' lengths does not match");
  }
  crc = crc32c(rest, crc);
  rest.remove_prefix(4);
  if (mask_crc(crc) != masked_crc) throw DataLoss("the checksum does not match");
  std::vector<std::string_view> strings;
  strings.reserve(lengths.size());
  for (const std::uint64_t length : lengths) {
    if (length > rest.size()) throw DataLoss("a string of {} bytes leaves its tensor", length);
    strings.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (!rest.empty()) throw DataLoss("{} bytes are left behind the last string", rest.size());
  return strings;
}

}  // namespace muster
