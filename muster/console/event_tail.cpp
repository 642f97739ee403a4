#include "muster/console/event_tail.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "muster/base/error.h"
#include "muster/base/open_file.h"
#include "muster/records/record_reader.h"

namespace muster::console {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
// Of one record: graphs of large models are tens of megabytes.
constexpr std::size_t kMostRecordBytes = std::size_t{256} << 20;

/// Fills a piece from `offset` on; fewer bytes only at the end of the file.
std::size_t read_at(int descriptor, std::uint64_t offset, std::string& piece) {
  std::size_t size = 0;
  while (size < piece.size()) {
    const ssize_t got = ::pread(descriptor, piece.data() + size, piece.size() - size,
                                static_cast<off_t>(offset + size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(errno, "reading");
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  return size;
}

}  // namespace

// How many bytes were taken.
std::size_t EventTail::take_records(std::string_view bytes,
                                    const std::function<void(std::string_view)>& take) {
  RecordReader reader(bytes, path_.filename().string(),
                      {.compression = Compression::kNone, .max_record_bytes = kMostRecordBytes});
  for (;;) {
    const std::uint64_t at = reader.offset();
    try {
      const auto record = reader.next();
      if (!record) return bytes.size();
      take(*record);
    } catch (const TornTail& torn) {
      return torn.whole_bytes();
    } catch (const Error& error) {
      problem_ = fmt::format("at byte {}: {}", offset_ + at, error.message());
      // A length that is wrong leads nowhere; a record with wrong bytes is passed over.
      if (reader.offset() == at) {
        is_stuck_ = true;
        return at;
      }
    }
  }
}

void EventTail::poll(const std::function<void(std::string_view record)>& take) {
  try {
    const OpenFile file(path_, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) throw_errno(errno, "looking at");
    if (!S_ISREG(status.st_mode)) throw InvalidArgument("this is no file");
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (size < offset_) throw DataLoss("the file was cut short: it had {} bytes", offset_);
    std::string piece;
    is_stuck_ = false;
    while (offset_ < size && !is_stuck_) {
      const std::size_t wish = std::max(kPieceBytes, 4 * piece.size());
      piece.resize(std::min<std::uint64_t>(wish, size - offset_));
      const std::size_t got = read_at(file.get(), offset_, piece);
      const std::size_t taken = take_records(std::string_view(piece).substr(0, got), take);
      offset_ += taken;
      const bool at_end = offset_ + (got - taken) >= size;
      if (taken == 0 && (at_end || piece.size() > kMostRecordBytes)) return;
      if (taken > 0) piece.clear();
    }
  } catch (const Error& error) {
    problem_ = error.message();
  }
}

}  // namespace muster::console
