// A reader of its own, because LevelDB's takes the lengths in a file as they are: it allocates what
// a damaged block handle or snappy header asks for, and asserts on some of the rest.
#include <snappy.h>

#include <cstdint>
#include <cstring>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/data/checkpoint/index_table_internal.h"
#include "muster/data/checkpoint/little_endian_internal.h"

namespace muster {
namespace {

constexpr std::uint64_t kMagic = 0xdb4775248b80fb57u;
constexpr std::size_t kFooterBytes = 48;
/// After each block: one byte of compression type, four of checksum.
constexpr std::size_t kTrailerBytes = 5;
constexpr unsigned char kPlain = 0;
constexpr unsigned char kSnappy = 1;
/// Snappy's densest element makes 64 bytes from 3.
constexpr std::size_t kMostSnappyExpansion = 22;
/// Rows share the beginning of their keys with the row before, up to 15 times in a row: a block
/// whose keys are much longer than itself was not made by a table builder.
constexpr std::size_t kMostKeyExpansion = 64;

struct BlockHandle {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

[[noreturn]] void damaged(std::uint64_t offset, std::string_view what) {
  throw DataLoss("no whole index table: {} at byte {}", what, offset);
}

BlockHandle take_handle(std::string_view& bytes, std::uint64_t at) {
  BlockHandle handle;
  if (!take_varint(bytes, handle.offset) || !take_varint(bytes, handle.size)) {
    damaged(at, "a torn block handle");
  }
  return handle;
}

/// A block's rows and the offset of the block in the file, for messages.
struct Block {
  std::string storage;
  std::string_view bytes;
  std::uint64_t offset = 0;
};

class TableReader {
 public:
  TableReader(std::string_view file, bool verify_checksums)
      : file_(file), verify_checksums_(verify_checksums) {}

  void read(const TableRowFn& row) {
    const Block index = read_block(index_handle());
    // Blocks come one after the other; asking for that bounds the work by the size of the file.
    std::uint64_t end_of_last = 0;
    std::string last_key;
    bool first = true;
    each_row(index, [&](std::string_view, std::string_view value) {
      const BlockHandle handle = take_handle(value, index.offset);
      if (handle.offset < end_of_last) damaged(index.offset, "blocks out of order");
      const Block block = read_block(handle);
      end_of_last = handle.offset + handle.size;
      each_row(block, [&](std::string_view key, std::string_view content) {
        if (!first && key <= last_key) damaged(block.offset, "keys out of order");
        first = false;
        last_key = key;
        row(key, content);
      });
    });
  }

 private:
  BlockHandle index_handle() const {
    if (file_.size() < kFooterBytes) {
      throw DataLoss("no whole index table: {} bytes are too few", file_.size());
    }
    const std::uint64_t at = file_.size() - kFooterBytes;
    std::string_view footer = file_.substr(at);
    if (load_u64(footer.substr(kFooterBytes - 8)) != kMagic) damaged(at, "no footer");
    take_handle(footer, at);  // the meta index, which holds nothing here
    return take_handle(footer, at);
  }

  Block read_block(const BlockHandle& handle) const {
    const std::uint64_t end = file_.size() - kFooterBytes;
    if (handle.offset > end || end - handle.offset < kTrailerBytes ||
        handle.size > end - handle.offset - kTrailerBytes) {
      damaged(handle.offset, "a block beyond the end");
    }
    const std::string_view stored = file_.substr(handle.offset, handle.size);
    const std::string_view trailer = file_.substr(handle.offset + handle.size, kTrailerBytes);
    if (verify_checksums_ &&
        mask_crc(crc32c(trailer.substr(0, 1), crc32c(stored))) != load_u32(trailer.substr(1))) {
      damaged(handle.offset, "a block whose checksum does not match");
    }
    return unpack(stored, static_cast<unsigned char>(trailer[0]), handle.offset);
  }

  static Block unpack(std::string_view stored, unsigned char type, std::uint64_t offset) {
    if (type == kPlain) return {{}, stored, offset};
    if (type != kSnappy) damaged(offset, "a block of unknown compression");
    std::size_t size = 0;
    if (!snappy::GetUncompressedLength(stored.data(), stored.size(), &size) ||
        size > stored.size() * kMostSnappyExpansion) {
      damaged(offset, "a compressed block of impossible length");
    }
    Block block{std::string(size, '\0'), {}, offset};
    if (!snappy::RawUncompress(stored.data(), stored.size(), block.storage.data())) {
      damaged(offset, "a damaged compressed block");
    }
    return block;
  }

  // The rows stand before the restart points (places where a key is whole), which only seeks need.
  static std::string_view rows_of(const Block& block) {
    const std::string_view bytes = block.storage.empty() ? block.bytes : block.storage;
    if (bytes.size() < 4) damaged(block.offset, "a block without restart points");
    const std::uint64_t restarts = load_u32(bytes.substr(bytes.size() - 4));
    if (restarts > (bytes.size() - 4) / 4) damaged(block.offset, "too many restart points");
    return bytes.substr(0, bytes.size() - 4 - restarts * 4);
  }

  template <typename Row>
  static void each_row(const Block& block, Row&& row) {
    std::string_view rest = rows_of(block);
    const std::size_t most_key_bytes = rest.size() * kMostKeyExpansion;
    std::size_t key_bytes = 0;
    std::string key;
    while (!rest.empty()) {
      std::uint64_t shared = 0;
      std::uint64_t fresh = 0;
      std::uint64_t value_size = 0;
      if (!take_varint(rest, shared) || !take_varint(rest, fresh) ||
          !take_varint(rest, value_size) || shared > key.size() || fresh > rest.size() ||
          value_size > rest.size() - fresh) {
        damaged(block.offset, "a row that does not fit its block");
      }
      key.resize(shared);
      key.append(rest.substr(0, fresh));
      key_bytes += key.size();
      if (key_bytes > most_key_bytes) damaged(block.offset, "a block with keys beyond its size");
      const std::string_view value = rest.substr(fresh, value_size);
      rest.remove_prefix(fresh + value_size);
      row(std::string_view(key), value);
    }
  }

  std::string_view file_;
  bool verify_checksums_;
};

}  // namespace

void read_index_table(std::string_view bytes, const TableRowFn& row, bool verify_checksums) {
  TableReader(bytes, verify_checksums).read(row);
}

}  // namespace muster
