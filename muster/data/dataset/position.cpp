#include "muster/data/dataset/position.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"

namespace muster {
namespace {

constexpr char kMagic = 'P';
constexpr char kVersion = 1;
constexpr std::size_t kHeaderBytes = 6;
constexpr std::size_t kMaxKindBytes = 64;

void append_number(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void append_fixed32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

std::uint32_t fixed32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// How many bits hold every number below `count`.
unsigned rank_bits(std::uint64_t count) { return count < 2 ? 0 : std::bit_width(count - 1); }

std::uint64_t packed_bytes(std::uint64_t count) { return (count * rank_bits(count) + 7) / 8; }

void append_packed(std::string& out, std::span<const std::uint32_t> values) {
  const unsigned bits = rank_bits(values.size());
  std::uint64_t pending = 0;
  unsigned used = 0;
  for (const std::uint32_t value : values) {
    pending |= std::uint64_t{value} << used;
    for (used += bits; used >= 8; used -= 8, pending >>= 8) {
      out.push_back(static_cast<char>(pending));
    }
  }
  if (used > 0) out.push_back(static_cast<char>(pending));
}

std::vector<std::uint32_t> unpack(std::string_view bytes, std::uint64_t count) {
  const unsigned bits = rank_bits(count);
  std::vector<std::uint32_t> values(count);
  std::uint64_t pending = 0;
  unsigned held = 0;
  std::size_t next = 0;
  for (std::uint32_t& value : values) {
    for (; held < bits; held += 8) {
      pending |= std::uint64_t{static_cast<unsigned char>(bytes[next++])} << held;
    }
    value = static_cast<std::uint32_t>(pending & ((std::uint64_t{1} << bits) - 1));
    pending >>= bits;
    held -= bits;
  }
  return values;
}

// count, then (epoch delta, ordinal delta within the epoch) in ascending order, with the epochs
// omitted where all are one; then the rank of each place.
void append_origins(std::string& out, std::span<const Origin> origins) {
  std::vector<std::uint32_t> order(origins.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return origins[a] < origins[b]; });
  append_number(out, origins.size());
  if (origins.empty()) return;
  const bool one_epoch = origins[order.front()].epoch == origins[order.back()].epoch;
  append_number(out, one_epoch ? 1 : 0);
  Origin last{};
  std::vector<std::uint32_t> rank(origins.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Origin& origin = origins[order[i]];
    if (i == 0 || !one_epoch) append_number(out, origin.epoch - last.epoch);
    append_number(out, origin.epoch == last.epoch ? origin.ordinal - last.ordinal : origin.ordinal);
    last = origin;
    rank[order[i]] = static_cast<std::uint32_t>(i);
  }
  append_packed(out, rank);
}

}  // namespace

std::string& PositionWriter::tail() {
  if (parts_.empty() || !std::holds_alternative<std::string>(parts_.back())) {
    parts_.emplace_back(std::string());
  }
  return std::get<std::string>(parts_.back());
}

void PositionWriter::stage(std::string_view kind) { text(kind); }

void PositionWriter::text(std::string_view value) {
  number(value.size());
  tail().append(value);
  cost_ += value.size();
}

void PositionWriter::failures(std::span<const std::exception_ptr> failures) {
  number(failures.size());
  for (const std::exception_ptr& failure : failures) {
    const Description description = describe(failure);
    number(static_cast<std::uint64_t>(description.code));
    text(description.message);
  }
}

void PositionWriter::number(std::uint64_t value) {
  append_number(tail(), value);
  cost_ += sizeof value;
}

void PositionWriter::origins(std::vector<Origin> origins) {
  cost_ += origins.size() * sizeof(Origin);
  parts_.emplace_back(std::move(origins));
}

void PositionWriter::nested(std::shared_ptr<const PositionWriter> position) {
  cost_ += sizeof position;
  parts_.emplace_back(std::move(position));
}

void PositionWriter::append_to(std::string& out) const {
  for (const Part& part : parts_) {
    if (const auto* bytes = std::get_if<std::string>(&part)) {
      out += *bytes;
    } else if (const auto* origins = std::get_if<std::vector<Origin>>(&part)) {
      append_origins(out, *origins);
    } else {
      std::string inner;
      std::get<std::shared_ptr<const PositionWriter>>(part)->append_to(inner);
      append_number(out, inner.size());
      out += inner;
    }
  }
}

std::string PositionWriter::encode() const {
  std::string payload;
  append_to(payload);
  std::string out{kMagic, kVersion};
  append_fixed32(out, mask_crc(crc32c(payload)));
  return out + payload;
}

PositionReader PositionReader::open(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes || bytes[0] != kMagic) {
    throw InvalidArgument("these {} bytes are not a dataset position", bytes.size());
  }
  if (bytes[1] != kVersion) {
    throw InvalidArgument("dataset position has version {}, but this muster reads version {}",
                          static_cast<int>(bytes[1]), static_cast<int>(kVersion));
  }
  const std::string_view payload = bytes.substr(kHeaderBytes);
  if (mask_crc(crc32c(payload)) != fixed32(bytes.substr(2))) {
    throw InvalidArgument(
        "dataset position is damaged: the checksum of its {} bytes does not match", bytes.size());
  }
  return PositionReader(payload);
}

std::string_view PositionReader::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) {
    throw InvalidArgument("dataset position ends too early: {} bytes wanted, {} left", bytes,
                          rest_.size());
  }
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

void PositionReader::expect(std::string_view kind) {
  if (at_end()) {
    throw InvalidArgument("position ends before stage {}: it was saved by another pipeline", kind);
  }
  const std::uint64_t length = number();
  if (length > kMaxKindBytes)
    throw InvalidArgument("dataset position names no stage where one is due");
  const std::string_view saved = take(length);
  if (saved != kind) {
    throw InvalidArgument("position was saved at stage {}, but this pipeline has {} here", saved,
                          kind);
  }
}

std::uint64_t PositionReader::number() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  throw InvalidArgument("dataset position has a number of more than 64 bits");
}

std::string PositionReader::text() { return std::string(take(number())); }

std::vector<std::exception_ptr> PositionReader::failures() {
  std::vector<std::exception_ptr> failures;
  for (std::uint64_t left = number(); left > 0; --left) {
    const auto code = static_cast<ErrorCode>(number());
    failures.push_back(std::make_exception_ptr(Error(code, text())));
  }
  return failures;
}

std::vector<Origin> PositionReader::origins() {
  const std::uint64_t count = number();
  if (count == 0) return {};
  // Each takes a byte at least, so this bounds the memory before it is taken.
  if (count > rest_.size()) {
    throw InvalidArgument("dataset position names {} elements in {} bytes", count, rest_.size());
  }
  const bool one_epoch = number() == 1;
  std::vector<Origin> sorted(count);
  Origin last{};
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t epochs = i == 0 || !one_epoch ? number() : 0;
    const std::uint64_t ordinal = number();
    last = {last.epoch + epochs, epochs == 0 ? last.ordinal + ordinal : ordinal};
    sorted[i] = last;
  }
  const std::vector<std::uint32_t> ranks = unpack(take(packed_bytes(count)), count);
  std::vector<Origin> origins(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (ranks[i] >= count)
      throw InvalidArgument("dataset position has a place beyond its elements");
    origins[i] = sorted[ranks[i]];
  }
  return origins;
}

PositionReader PositionReader::nested() { return PositionReader(take(number())); }

void PositionReader::finish() const {
  if (!at_end()) {
    throw InvalidArgument("position has {} bytes more than this pipeline has stages", rest_.size());
  }
}

}  // namespace muster
