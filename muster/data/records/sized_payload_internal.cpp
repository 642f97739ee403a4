#include <algorithm>

#include "muster/base/error.h"
#include "muster/data/records/sized_payload_internal.h"

namespace muster {
namespace {

constexpr std::uint64_t kFirstPieceBytes = std::uint64_t{1} << 20;

}  // namespace

std::string SizedReader::take(std::uint64_t bytes, std::string_view what) {
  std::string out;
  while (out.size() < bytes) {
    const std::size_t before = out.size();
    const std::uint64_t piece = std::max<std::uint64_t>(before, kFirstPieceBytes);
    out.resize(before + std::min(piece, bytes - before));
    const std::size_t got = input_.read({out.data() + before, out.size() - before});
    if (got < out.size() - before) {
      throw DataLoss("{}: truncated: {} takes {} bytes from offset {}, but only {} are there",
                     name_, what, bytes, offset_, before + got);
    }
  }
  offset_ += bytes;
  return out;
}

void SizedReader::expect_end() {
  char more = 0;
  if (input_.read({&more, 1}) != 0) {
    throw DataLoss("{}: more bytes than the header says, from offset {}", name_, offset_);
  }
}

}  // namespace muster
