#include "muster/data/records/fixed_length.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/compression_internal.h"

namespace muster {
namespace {

constexpr std::size_t kFirstReadBytes = std::size_t{1} << 20;

[[noreturn]] void fail_size(const Path& path, const FixedLengthOptions& options,
                            std::uint64_t bytes) {
  throw DataLoss(
      "{}: {} bytes, less {} of header and {} of footer, are no whole number of records of {}",
      path.string(), bytes, options.header_bytes, options.footer_bytes, options.record_bytes);
}

std::string where_of(const Path& path, std::uint64_t number) {
  return fmt::format("{} record {}", path.string(), number);
}

/// The records of a plain file: views into its mapping.
class MappedFixedLength : public RecordSource {
 public:
  MappedFixedLength(Path path, const FixedLengthOptions& options)
      : path_(std::move(path)), options_(options), file_(file_system_for(path_).map(path_)) {
    const std::uint64_t bytes = file_->bytes().size();
    // In this order, so that large options cannot overflow a sum.
    if (options_.header_bytes > bytes || options_.footer_bytes > bytes - options_.header_bytes) {
      fail_size(path_, options_, bytes);
    }
    const std::uint64_t body = bytes - options_.header_bytes - options_.footer_bytes;
    if (body % options_.record_bytes != 0) fail_size(path_, options_, bytes);
    count_ = body / options_.record_bytes;
  }

  bool next(Record& out) override {
    if (position_ >= count_) return false;
    out.bytes = file_->bytes().substr(options_.header_bytes + position_ * options_.record_bytes,
                                      options_.record_bytes);
    out.owner = file_;
    ++position_;
    return true;
  }
  void seek(std::uint64_t number) override { position_ = std::min(number, count_); }
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> count() const override { return count_; }
  bool random_access() const override { return true; }
  std::string where(std::uint64_t number) const override { return where_of(path_, number); }

 private:
  Path path_;
  FixedLengthOptions options_;
  std::shared_ptr<const MappedFile> file_;
  std::uint64_t count_ = 0;
  std::uint64_t position_ = 0;
};

/// The records of a compressed file: views into blocks of whole records. A footer's length is
/// always held back, since only the end of the stream tells that it was one.
class StreamedFixedLength : public RecordSource {
 public:
  StreamedFixedLength(Path path, const FixedLengthOptions& options)
      : path_(std::move(path)), options_(options) {
    rewind();
  }

  bool next(Record& out) override {
    if (block_.size() - at_ < needed() && !fill()) return false;
    out.bytes = std::string_view(block_).substr(at_, options_.record_bytes);
    out.owner = owner_;
    at_ += options_.record_bytes;
    ++position_;
    return true;
  }
  void seek(std::uint64_t number) override {
    if (number < position_) rewind();
    for (Record passed; position_ < number && next(passed);) {
    }
  }
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> count() const override { return std::nullopt; }
  bool random_access() const override { return false; }
  std::string where(std::uint64_t number) const override { return where_of(path_, number); }

 private:
  std::uint64_t needed() const { return options_.record_bytes + options_.footer_bytes; }

  void rewind() {
    input_ = open_input(path_, options_.compression);
    block_ = {};
    owner_.reset();
    at_ = 0;
    position_ = 0;
    read_bytes_ = 0;
    skip_header();
  }

  void skip_header() {
    std::array<char, 4096> passed;
    while (read_bytes_ < options_.header_bytes) {
      const auto piece =
          std::min<std::uint64_t>(passed.size(), options_.header_bytes - read_bytes_);
      const std::size_t got = input_->read(std::span(passed).first(piece));
      read_bytes_ += got;
      if (got < piece) fail_size(path_, options_, read_bytes_);
    }
  }

  /// Starts a block with what is left of the last one. False at the end of the file.
  bool fill() {
    std::string more(block_.substr(at_));
    at_ = 0;
    // Grows with what comes: a record length alone takes no memory.
    for (std::size_t piece = kFirstReadBytes; more.size() < needed(); piece = more.size()) {
      const std::size_t before = more.size();
      more.resize(before + piece);
      const std::size_t got = input_->read({more.data() + before, piece});
      more.resize(before + got);
      read_bytes_ += got;
      if (got < piece) break;
    }
    auto shared = std::make_shared<const std::string>(std::move(more));
    block_ = *shared;
    owner_ = std::move(shared);
    if (block_.size() >= needed()) return true;
    if (block_.size() != options_.footer_bytes) fail_size(path_, options_, read_bytes_);
    return false;
  }

  Path path_;
  FixedLengthOptions options_;
  std::unique_ptr<InputStream> input_{};
  std::string_view block_{};
  std::shared_ptr<const std::string> owner_{};
  std::size_t at_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t read_bytes_ = 0;
};

Compression compression_of(const Path& path, const FixedLengthOptions& options) {
  if (options.compression != Compression::kAuto) return options.compression;
  std::array<char, compression_internal::kMagicBytes> first{};
  const std::size_t got = file_system_for(path).open(path)->read(first);
  return compression_internal::recognise({first.data(), got});
}

}  // namespace

std::unique_ptr<RecordSource> open_fixed_length(const Path& path,
                                                const FixedLengthOptions& options) {
  if (options.record_bytes == 0) throw InvalidArgument("record_bytes must be positive");
  if (options.footer_bytes > UINT64_MAX - options.record_bytes) {
    throw InvalidArgument("footer_bytes is out of range: {}", options.footer_bytes);
  }
  if (compression_of(path, options) == Compression::kNone) {
    return std::make_unique<MappedFixedLength>(path, options);
  }
  return std::make_unique<StreamedFixedLength>(path, options);
}

}  // namespace muster
