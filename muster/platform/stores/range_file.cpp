#include "muster/platform/stores/range_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "muster/base/error.h"
#include "muster/base/piecewise_file.h"
#include "muster/platform/stores/large_buffer.h"

namespace muster::stores {
namespace {

class RangeFile : public PiecewiseFile {
 public:
  RangeFile(FetchRange fetch, std::shared_ptr<Transfers> transfers, const RangeOptions& options)
      : fetch_(std::move(fetch)), transfers_(std::move(transfers)), options_(options) {
    ObjectRange first = fetch_(0, options_.range_bytes, "", {});
    size_ = first.info.size_bytes;
    version_ = first.info.version;
    current_ = shared_buffer(std::move(first.bytes));
    if (current_->size() != std::min(size_, options_.range_bytes)) {
      throw DataLoss("a range of {} bytes came, of a file of {}", current_->size(), size_);
    }
  }

  // Reads on their way are told to stop, and waited for: they must not outlive the program's
  // libraries.
  ~RangeFile() override { drop_ahead(); }

  std::size_t read(std::span<char> out) override {
    std::size_t done = 0;
    while (done < out.size() && place_ < size_) {
      const std::string_view there = rest_of_range();
      const std::size_t count = std::min(out.size() - done, there.size());
      std::memcpy(out.data() + done, there.data(), count);
      done += count;
      pass(count);
    }
    return done;
  }

  SharedBytes next_piece() override {
    if (place_ >= size_) return {};
    std::string_view there = rest_of_range();
    // Who has seen the first half and no more may want no more.
    const std::size_t half = current_->size() / 2;
    if (ahead_.empty() && place_ - begin_ < half) there = there.substr(0, half - (place_ - begin_));
    pass(there.size());
    return {there, current_};
  }

  void seek(std::uint64_t offset) override { place_ = offset; }
  std::uint64_t size() const override { return size_; }

 private:
  struct Ahead {
    std::uint64_t begin = 0;
    std::future<ObjectRange> range{};
  };

  // From place_, which is before the end of the file, to the end of its range.
  std::string_view rest_of_range() {
    if (current_ == nullptr || place_ < begin_ || place_ >= begin_ + current_->size()) next_range();
    return std::string_view(*current_).substr(place_ - begin_);
  }

  void pass(std::size_t bytes) {
    place_ += bytes;
    // A reader that comes past the middle of a range is expected to read on.
    if (ahead_.empty() && (place_ - begin_) * 2 > current_->size()) {
      fetch_ahead_of(begin_ + current_->size());
    }
  }

  std::uint64_t length_at(std::uint64_t begin) const {
    return std::min(options_.range_bytes, size_ - begin);
  }

  void start(std::uint64_t begin) {
    ahead_.push_back({begin, transfers_->run([fetch = fetch_, begin, length = length_at(begin),
                                              version = version_, stop = stop_.get_token()] {
                        return fetch(begin, length, version, stop);
                      })});
  }

  // Makes the range with place_ the current one.
  void next_range() {
    while (!ahead_.empty() && (place_ < ahead_.front().begin ||
                               place_ >= ahead_.front().begin + length_at(ahead_.front().begin))) {
      // A seek: those that lie ahead of the new place may still be read.
      if (place_ < ahead_.front().begin || place_ >= ahead_.back().begin + options_.range_bytes) {
        drop_ahead();
      } else {
        ahead_.front().range.wait();
        ahead_.pop_front();
      }
    }
    if (ahead_.empty()) start(place_);
    Ahead next = std::move(ahead_.front());
    ahead_.pop_front();
    begin_ = next.begin;
    // The others are on their way while this one is waited for, one of them into this memory.
    current_.reset();
    const std::uint64_t length = length_at(begin_);
    if (is_sequential()) fetch_ahead_of(begin_ + length);
    ObjectRange range = next.range.get();
    if (range.bytes.size() != length) {
      throw DataLoss("a range of {} bytes came where {} were asked for", range.bytes.size(),
                     length);
    }
    current_ = shared_buffer(std::move(range.bytes));
    last_end_ = begin_ + length;
  }

  bool is_sequential() const { return begin_ == last_end_ || !ahead_.empty(); }

  void fetch_ahead_of(std::uint64_t next) {
    if (!ahead_.empty()) next = ahead_.back().begin + options_.range_bytes;
    while (ahead_.size() < options_.in_flight && next < size_) {
      start(next);
      next += options_.range_bytes;
    }
  }

  void drop_ahead() {
    if (ahead_.empty()) return;
    stop_.request_stop();
    for (Ahead& range : ahead_) range.range.wait();
    ahead_.clear();
    stop_ = std::stop_source();
  }

  const FetchRange fetch_;
  const std::shared_ptr<Transfers> transfers_;
  const RangeOptions options_;
  /// Kept while ranges come and go.
  const std::shared_ptr<SpareBuffers> spare_ = SpareBuffers::shared();
  std::uint64_t size_ = 0;
  std::string version_;
  /// Offset of the next byte to read.
  std::uint64_t place_ = 0;
  /// The range that is read, and where it begins in the file.
  std::shared_ptr<const std::string> current_;
  std::uint64_t begin_ = 0;
  std::uint64_t last_end_ = options_.range_bytes;
  std::deque<Ahead> ahead_;
  std::stop_source stop_;
};

class MemoryFile : public MappedFile {
 public:
  explicit MemoryFile(std::string bytes) : bytes_(std::move(bytes)) {}
  std::string_view bytes() const override { return bytes_; }

 private:
  std::string bytes_;
};

/// A file without a name, which goes with the last that has it open or mapped.
class TemporaryFile {
 public:
  TemporaryFile() {
    const char* folder = std::getenv("TMPDIR");
    name_ = std::string(folder == nullptr || *folder == '\0' ? "/tmp" : folder) +
            "/muster-download-XXXXXX";
    descriptor_ = ::mkostemp(name_.data(), O_CLOEXEC);
    if (descriptor_ < 0) throw_errno(errno, "making a temporary file " + name_);
    ::unlink(name_.c_str());
  }
  ~TemporaryFile() { ::close(descriptor_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write_at(std::uint64_t offset, std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto count =
          ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw_errno(errno, "downloading to the temporary file " + name_);
      bytes.remove_prefix(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
  }

  int get() const { return descriptor_; }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  int descriptor_ = -1;
};

class DownloadedFile : public MappedFile {
 public:
  DownloadedFile(const TemporaryFile& file, std::size_t size) : size_(size) {
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
    if (address == MAP_FAILED) throw_errno(errno, "mapping the temporary file " + file.name());
    address_ = static_cast<char*>(address);
  }
  ~DownloadedFile() override { ::munmap(address_, size_); }
  DownloadedFile(const DownloadedFile&) = delete;
  DownloadedFile& operator=(const DownloadedFile&) = delete;

  std::string_view bytes() const override { return {address_, size_}; }

 private:
  char* address_ = nullptr;
  std::size_t size_;
};

}  // namespace

std::unique_ptr<ReadableFile> open_ranges(FetchRange fetch, std::shared_ptr<Transfers> transfers,
                                          const RangeOptions& options) {
  return std::make_unique<RangeFile>(std::move(fetch), std::move(transfers), options);
}

std::shared_ptr<const MappedFile> map_ranges(const FetchRange& fetch, Transfers& transfers,
                                             const RangeOptions& options) {
  ObjectRange first = fetch(0, options.range_bytes, "", {});
  const std::uint64_t size = first.info.size_bytes;
  if (first.bytes.size() != std::min(size, options.range_bytes)) {
    throw DataLoss("a range of {} bytes came, of a file of {}", first.bytes.size(), size);
  }
  if (size == first.bytes.size()) return std::make_shared<MemoryFile>(std::move(first.bytes));
  const auto file = std::make_shared<TemporaryFile>();
  file->write_at(0, first.bytes);
  std::stop_source stop;
  std::deque<std::future<void>> in_flight;
  std::exception_ptr failure;
  const auto take_one = [&] {
    try {
      in_flight.front().get();
    } catch (...) {
      if (!failure) failure = std::current_exception();
      stop.request_stop();
    }
    in_flight.pop_front();
  };
  for (std::uint64_t begin = first.bytes.size(); begin < size && !failure;
       begin += options.range_bytes) {
    if (in_flight.size() > options.in_flight) take_one();
    const std::uint64_t length = std::min(options.range_bytes, size - begin);
    in_flight.push_back(transfers.run(
        [fetch, file, begin, length, version = first.info.version, token = stop.get_token()] {
          const ObjectRange range = fetch(begin, length, version, token);
          if (range.bytes.size() != length) {
            throw DataLoss("a range of {} bytes came where {} were asked for", range.bytes.size(),
                           length);
          }
          file->write_at(begin, range.bytes);
        }));
  }
  while (!in_flight.empty()) take_one();
  if (failure) std::rethrow_exception(failure);
  return std::make_shared<DownloadedFile>(*file, static_cast<std::size_t>(size));
}

}  // namespace muster::stores
