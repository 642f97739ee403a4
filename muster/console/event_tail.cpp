#include "muster/console/event_tail.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/open_file.h"
#include "muster/data/records/record_reader.h"

namespace muster::console {
namespace {

// Stays in the cache of a processor.
constexpr std::size_t kPieceBytes = std::size_t{512} << 10;
// Limit of one record: graphs of large models are tens of megabytes.
constexpr std::size_t kMostRecordBytes = std::size_t{256} << 20;

// A record is: length (8 bytes), masked CRC of these (4), data, masked CRC of the data (4).
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kFrameBytes = EventTail::kFrameBytes;
constexpr std::size_t kMostPieceBytes = kMostRecordBytes + kFrameBytes;

/// Room for a part of a file.
class Piece {
 public:
  std::size_t room() const { return room_; }
  /// For a record that does not fit.
  void grow() {
    room_ = std::min(4 * room_, kMostPieceBytes);
    bytes_ = std::make_unique_for_overwrite<char[]>(room_);
  }

  /// Bytes at an offset; fewer than `count` only at the end of the file.
  std::string_view read(int descriptor, std::uint64_t offset, std::size_t count) {
    std::size_t size = 0;
    while (size < count) {
      const ssize_t got =
          ::pread(descriptor, bytes_.get() + size, count - size, static_cast<off_t>(offset + size));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_errno(errno, "reading");
      if (got == 0) break;
      size += static_cast<std::size_t>(got);
    }
    return {bytes_.get(), size};
  }

 private:
  std::size_t room_ = kPieceBytes;
  std::unique_ptr<char[]> bytes_ = std::make_unique_for_overwrite<char[]>(kPieceBytes);
};

template <typename Word>
Word load(std::string_view bytes) {
  Word word;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

bool has_checksum(std::string_view data) {
  return mask_crc(crc32c(data)) ==
         load<std::uint32_t>({data.data() + data.size(), sizeof(std::uint32_t)});
}

/// The data of the record at the front, if all of it is there and is sound. Millions of short
/// records are found so in a fraction of the time that a RecordReader takes; what is amiss with
/// another one, that tells.
std::optional<std::string_view> sound_record(std::string_view bytes) {
  if (bytes.size() < kFrameBytes) return std::nullopt;
  const auto size = load<std::uint64_t>(bytes);
  if (size > std::min(kMostRecordBytes, bytes.size() - kFrameBytes)) return std::nullopt;
  const std::string_view data = bytes.substr(kHeaderBytes, size);
  if (!has_checksum(bytes.substr(0, kLengthBytes)) || !has_checksum(data)) return std::nullopt;
  return data;
}

}  // namespace

// How many bytes were taken.
std::size_t EventTail::take_records(std::string_view bytes, const TakeRecord& take) {
  std::size_t taken = 0;
  while (!is_stuck_) {
    const std::uint64_t at = offset_ + taken;
    const auto record = sound_record(bytes.substr(taken));
    if (!record) {
      const std::size_t passed = pass_over(bytes.substr(taken), at);
      if (passed == 0) break;
      taken += passed;
      continue;
    }
    taken += kFrameBytes + record->size();
    try {
      take(*record, at);
    } catch (const Error& error) {
      problem_ = fmt::format("at byte {}: {}", at, error.message());
    }
  }
  return taken;
}

// The bytes of a damaged record at the front; 0 if there is no end of it yet, or none to be found.
std::size_t EventTail::pass_over(std::string_view bytes, std::uint64_t at) {
  RecordReader reader(bytes, path_.filename().string(),
                      {.compression = Compression::kNone, .max_record_bytes = kMostRecordBytes});
  try {
    reader.next();
  } catch (const TornTail&) {
    return 0;
  } catch (const Error& error) {
    problem_ = fmt::format("at byte {}: {}", at, error.message());
    // A length that is wrong leads nowhere; a record with wrong bytes is skipped.
    is_stuck_ = reader.offset() == 0;
  }
  return reader.offset();
}

void EventTail::poll(const TakeRecord& take) {
  poll_until(std::numeric_limits<std::uint64_t>::max(), take);
}

void EventTail::read_again(std::uint64_t begin, std::uint64_t end, const TakeRecord& take) const {
  EventTail again(path_);
  again.offset_ = begin;
  again.poll_until(end, take);
}

void EventTail::poll_until(std::uint64_t end, const TakeRecord& take) {
  try {
    const OpenFile file(path_, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) throw_errno(errno, "looking at");
    if (!S_ISREG(status.st_mode)) throw InvalidArgument("this is no file");
    if (static_cast<std::uint64_t>(status.st_size) < offset_) {
      throw DataLoss("the file was cut short: it had {} bytes", offset_);
    }
    const std::uint64_t size = std::min(end, static_cast<std::uint64_t>(status.st_size));
    Piece piece;
    is_stuck_ = false;
    while (offset_ < size && !is_stuck_) {
      const std::string_view bytes =
          piece.read(file.get(), offset_, std::min<std::uint64_t>(piece.room(), size - offset_));
      const std::size_t taken = take_records(bytes, take);
      offset_ += taken;
      if (taken > 0) continue;
      const bool at_end = offset_ + bytes.size() >= size;
      if (at_end || piece.room() == kMostPieceBytes) return;
      piece.grow();
    }
  } catch (const Error& error) {
    problem_ = error.message();
  }
}

}  // namespace muster::console
