#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/records/wire.h"
#include "muster/data/sentence_piece/sentence_piece_check_internal.h"
#include "muster/data/text/unicode.h"

namespace muster::internal {
namespace {

using wire::Reader;

// Fields of the published message sentencepiece.ModelProto.
constexpr std::uint32_t kPieces = wire::tag(1, wire::kBytes);
constexpr std::uint32_t kNormalizer = wire::tag(3, wire::kBytes);
constexpr std::uint32_t kDenormalizer = wire::tag(5, wire::kBytes);
constexpr std::uint32_t kPieceText = wire::tag(1, wire::kBytes);
constexpr std::uint32_t kPieceScore = wire::tag(2, wire::kFixed32);
constexpr std::uint32_t kCharacterMap = wire::tag(2, wire::kBytes);

struct Payload {
  std::string_view bytes;
  std::size_t offset;
};

Payload payload_of(Reader& reader) {
  const std::string_view bytes = reader.bytes();
  return {bytes, reader.offset() - bytes.size()};
}

[[noreturn]] void fail_map(std::size_t offset, std::string_view what) {
  throw DataLoss("the table of normalisation is damaged at offset {}: {}", offset, what);
}

// A unit of the trie: a double array as darts-clone lays it out.
struct Unit {
  std::uint32_t bits;
  bool is_value() const { return bits >> 31 != 0; }
  std::uint32_t value() const { return bits & 0x7fffffffU; }
  // Where the children are, beside the unit's own place.
  std::uint32_t jump() const { return bits >> 10 << ((bits & 1U << 9) >> 6); }
};

// The length of the trie, the trie, and texts that end with a zero each, to which its values point.
void check_character_map(const Payload& map) {
  if (map.bytes.empty()) return;
  std::uint32_t trie_bytes = 0;
  if (map.bytes.size() < sizeof trie_bytes) fail_map(map.offset, "it has fewer than 4 bytes");
  std::memcpy(&trie_bytes, map.bytes.data(), sizeof trie_bytes);
  const std::size_t left = map.bytes.size() - sizeof trie_bytes;
  if (trie_bytes == 0 || trie_bytes % sizeof(Unit) != 0 || trie_bytes >= left) {
    throw DataLoss(
        "the table of normalisation is damaged at offset {}: it says that its trie has {} bytes, "
        "and {} follow",
        map.offset, trie_bytes, left);
  }
  if (map.bytes.back() != '\0') {
    fail_map(map.offset + map.bytes.size() - 1, "its last text has no end");
  }
  const std::size_t units = trie_bytes / sizeof(Unit);
  const std::size_t text_bytes = left - trie_bytes;
  for (std::size_t i = 0; i < units; ++i) {
    const std::size_t at = sizeof trie_bytes + i * sizeof(Unit);
    Unit unit{};
    std::memcpy(&unit.bits, map.bytes.data() + at, sizeof unit.bits);
    if (unit.is_value()) {
      if (unit.value() >= text_bytes)
        fail_map(map.offset + at, "a value lies outside of the texts");
    } else if (((i ^ unit.jump()) | 0xff) >= units) {
      // A child is any of the 256 units there.
      fail_map(map.offset + at, "a branch leads out of the trie");
    }
  }
}

void check_normalizer(const Payload& message) {
  Reader reader(message.bytes, message.offset);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kCharacterMap) {
      check_character_map(payload_of(reader));
    } else {
      reader.skip(tag);
    }
  }
}

void check_piece(const Payload& message, std::size_t number) {
  Reader reader(message.bytes, message.offset);
  std::string_view text;
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kPieceText) {
      text = reader.bytes();
    } else if (tag == kPieceScore) {
      const float score = reader.fixed32_float();
      if (!std::isfinite(score)) {
        throw InvalidArgument("piece {} at offset {} has a score that is no finite number", number,
                              message.offset);
      }
    } else {
      reader.skip(tag);
    }
  }
  if (text.empty() || text.find('\0') != std::string_view::npos || first_invalid_utf8(text)) {
    throw InvalidArgument("piece {} at offset {} is empty, has a zero in it or is not UTF-8",
                          number, message.offset);
  }
}

}  // namespace

void check_sentence_piece_model(std::string_view model) {
  Reader reader(model, 0);
  std::size_t pieces = 0;
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kPieces) {
      check_piece(payload_of(reader), pieces++);
    } else if (tag == kNormalizer || tag == kDenormalizer) {
      check_normalizer(payload_of(reader));
    } else {
      reader.skip(tag);
    }
  }
  if (pieces == 0) throw InvalidArgument("there are no pieces in it: it is no SentencePiece model");
}

}  // namespace muster::internal
