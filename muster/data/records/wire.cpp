#include "muster/data/records/wire.h"

namespace muster::wire {
namespace {

constexpr int kMaxGroupDepth = 100;
constexpr int kMaxVarintBytes = 10;

}  // namespace

std::uint64_t Reader::long_varint() {
  std::uint64_t value = 0;
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    if (at_ == end_) fail("truncated number");
    const auto byte = static_cast<std::uint8_t>(*at_++);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << (7 * i);
    if (byte < 0x80) return value;
  }
  fail("number of more than 10 bytes");
}

const char* Reader::take(std::size_t count) {
  if (count > left()) fail("truncated value");
  const char* const taken = at_;
  at_ += count;
  return taken;
}

void Reader::skip(std::uint32_t tag_of_field, int depth) {
  switch (tag_of_field & 7) {
    case kVarint:
      varint();
      return;
    case kFixed64:
      take(8);
      return;
    case kBytes:
      bytes();
      return;
    case kFixed32:
      take(4);
      return;
    case kGroup:
      if (depth >= kMaxGroupDepth) fail("groups nested too deep");
      for (;;) {
        const std::uint32_t inner = tag();
        if (inner == tag_of_field - kGroup + kEndGroup) return;
        skip(inner, depth + 1);
      }
    default:
      fail("bad wire type");
  }
}

void Reader::fail(std::string_view what) const {
  throw DataLoss("not a well-formed message at offset {}: {}", offset(), what);
}

void Reader::fail_length(std::uint64_t length) const {
  throw DataLoss("not a well-formed message at offset {}: length {} where {} bytes are left",
                 offset(), length, left());
}

}  // namespace muster::wire
