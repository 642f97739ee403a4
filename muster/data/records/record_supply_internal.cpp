#include "muster/data/records/record_supply_internal.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/object_store.h"
#include "muster/base/piecewise_file.h"
#include "muster/base/shared_block.h"
#include "muster/data/records/compression_internal.h"

namespace muster::record_internal {
namespace {

using compression_internal::PartialInput;

/// A mapping, or bytes that the caller keeps.
class MemorySupply final : public RecordSupply {
 public:
  MemorySupply(std::string_view bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}

  std::string_view more(std::string_view rest, std::size_t) override {
    return rest.data() == nullptr ? bytes_ : rest;
  }
  const std::shared_ptr<const void>& share() override { return owner_; }
  std::optional<std::uint64_t> seekable_bytes() const override { return bytes_.size(); }
  std::string_view seek(std::uint64_t offset) override { return bytes_.substr(offset); }

 private:
  std::string_view bytes_;
  std::shared_ptr<const void> owner_;
};

/// Small enough to be still in the second-level cache when its records are looked at.
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

/// Reads into a block; what is left of it moves to the front of the next one. A block of which a
/// share is held is left alone, and a fresh one taken.
class StreamSupply final : public RecordSupply {
 public:
  /// `source` is what the input reads from, kept as long as the input.
  explicit StreamSupply(std::unique_ptr<PartialInput> input,
                        std::shared_ptr<const void> source = nullptr)
      : source_(std::move(source)), input_(std::move(input)) {}

  std::string_view more(std::string_view rest, std::size_t want) override {
    if (ended_) return rest;
    std::size_t have = rest.size();
    make_room(rest, std::max(kBlockBytes, 2 * have));
    while (have < want && !ended_) {
      // Grows with what has come, not with what a length promises.
      if (have == size_) make_room({block_.get(), have}, 2 * have);
      have += read_some({block_.get() + have, size_ - have});
    }
    return {block_.get(), have};
  }

  void check() const override {
    if (failure_) std::rethrow_exception(failure_);
  }

  const std::shared_ptr<const void>& share() override {
    if (!share_) share_ = block_;
    return share_;
  }

 private:
  /// Puts `rest` at the front of a block of at least `size` bytes.
  void make_room(std::string_view rest, std::size_t size) {
    if (!share_ && size <= size_) {
      std::memmove(block_.get(), rest.data(), rest.size());
      return;
    }
    auto* const memory = new char[size];
    const std::shared_ptr<char[]> fresh(memory, BlockDeleter{[memory] { delete[] memory; }});
    rest.copy(fresh.get(), rest.size());
    block_ = fresh;
    size_ = size;
    share_ = nullptr;
  }

  std::size_t read_some(std::span<char> out) {
    try {
      const std::size_t count = input_->read_some(out);
      ended_ = count == 0;
      return count;
    } catch (const Error&) {
      failure_ = std::current_exception();
      ended_ = true;
      return 0;
    }
  }

  std::shared_ptr<const void> source_;
  std::unique_ptr<PartialInput> input_;
  std::shared_ptr<char[]> block_;
  std::size_t size_ = 0;
  std::shared_ptr<const void> share_;
  bool ended_ = false;
  std::exception_ptr failure_;
};

/// A file that is read from its present place on.
class ReadableInput final : public PartialInput {
 public:
  explicit ReadableInput(ReadableFile& file) : file_(file) {}
  std::size_t read_some(std::span<char> out) override { return file_.read(out); }

 private:
  ReadableFile& file_;
};

/// Gives the pieces of a file where they lie. What is in several of them is put together in a
/// block of its own.
class PieceSupply final : public RecordSupply {
 public:
  explicit PieceSupply(PiecewiseFile& file) : file_(file) {}

  std::string_view more(std::string_view rest, std::size_t want) override {
    // After a block, what is not read yet is in the piece too.
    if (given_ < piece_.bytes.size() && rest.size() <= given_) rest = rest_of_piece(rest.size());
    while (rest.empty() && take_piece()) rest = rest_of_piece(0);
    return rest.size() >= want ? rest : put_together(rest, want);
  }

  void check() const override {
    if (failure_) std::rethrow_exception(failure_);
  }

  const std::shared_ptr<const void>& share() override { return share_; }

 private:
  std::string_view rest_of_piece(std::size_t given_before) {
    share_ = piece_.owner;
    return piece_.bytes.substr(std::exchange(given_, piece_.bytes.size()) - given_before);
  }

  // Grows with what has come, not with what a length promises.
  std::string_view put_together(std::string_view rest, std::size_t want) {
    const auto block = std::make_shared<std::string>(rest);
    while (block->size() < want && (given_ < piece_.bytes.size() || take_piece())) {
      const std::string_view more = piece_.bytes.substr(given_, want - block->size());
      block->append(more);
      given_ += more.size();
    }
    share_ = block;
    return *block;
  }

  // False at the end of the file, or where it cannot be read.
  bool take_piece() {
    if (failure_) return false;
    try {
      piece_ = {};  // Its memory may be that of the next one.
      given_ = 0;
      share_.reset();
      piece_ = file_.next_piece();
    } catch (const Error&) {
      failure_ = std::current_exception();
    }
    return !piece_.bytes.empty();
  }

  PiecewiseFile& file_;
  SharedBytes piece_;
  /// Bytes from the front of the piece that have been given, up to the end of the last view.
  std::size_t given_ = 0;
  std::shared_ptr<const void> share_;
  std::exception_ptr failure_;
};

/// A smaller file comes by one request, and all of it is there.
constexpr std::uint64_t kSmallFileBytes = std::uint64_t{8} << 20;
/// A longer way than this to another record is counted.
constexpr std::uint64_t kFarBytes = std::uint64_t{1} << 20;
/// A reader with more far seeks reads in no order, and gets the file as a whole.
constexpr int kMostFarSeeks = 4;

/// A plain file of a store, read as it comes, ahead of the reader. It is copied to this host only
/// for a reader that goes to and fro in it.
class RemoteSupply final : public RecordSupply {
 public:
  RemoteSupply(Path path, std::unique_ptr<ReadableFile> file)
      : path_(std::move(path)), file_(std::move(file)) {
    start_at(0);
  }

  std::string_view more(std::string_view rest, std::size_t want) override {
    if (mapped_) return mapped_->more(rest, want);
    const std::string_view view = stream_->more(rest, want);
    place_ += view.size() - rest.size();
    return view;
  }

  void check() const override {
    if (stream_) stream_->check();
  }
  const std::shared_ptr<const void>& share() override {
    return mapped_ ? mapped_->share() : stream_->share();
  }
  std::optional<std::uint64_t> seekable_bytes() const override { return file_->size(); }

  std::string_view seek(std::uint64_t offset) override {
    if (!mapped_ && is_far(offset) && ++far_seeks_ > kMostFarSeeks) map();
    if (mapped_) return mapped_->seek(offset);
    start_at(offset);
    return {};
  }

 private:
  bool is_far(std::uint64_t offset) const {
    return file_->size() > kSmallFileBytes &&
           (offset > place_ + kFarBytes || offset + kFarBytes < place_);
  }

  void start_at(std::uint64_t offset) {
    file_->seek(offset);
    place_ = offset;
    if (auto* const pieces = dynamic_cast<PiecewiseFile*>(file_.get())) {
      stream_ = std::make_unique<PieceSupply>(*pieces);
    } else {
      stream_ = std::make_unique<StreamSupply>(std::make_unique<ReadableInput>(*file_));
    }
  }

  void map() {
    auto mapping = file_system_for(path_).map(path_, Access::kRandom);
    const std::string_view bytes = mapping->bytes();
    if (bytes.size() != file_->size()) {
      throw FailedPrecondition("{} was replaced while it was read; read it from its beginning",
                               path_.string());
    }
    mapped_ = std::make_unique<MemorySupply>(bytes, std::move(mapping));
    stream_.reset();
  }

  const Path path_;
  const std::unique_ptr<ReadableFile> file_;
  std::unique_ptr<RecordSupply> stream_;
  std::unique_ptr<MemorySupply> mapped_;
  /// After the bytes that were given.
  std::uint64_t place_ = 0;
  int far_seeks_ = 0;
};

Compression detect(std::string_view first, const std::string& name,
                   const RecordReaderOptions& options) {
  if (options.compression != Compression::kAuto) return options.compression;
  if (has_valid_length(first)) return Compression::kNone;
  const Compression recognised = compression_internal::recognise(first);
  if (recognised != Compression::kNone) return recognised;
  if (compression_internal::can_be_zlib(first)) return Compression::kZlib;
  // A file this short says nothing; one whose first record may be passed over is taken as plain.
  if (first.size() < kHeaderBytes || options.skip_bad_records > 0) return Compression::kNone;
  throw DataLoss(
      "{} record 0 at byte 0: the length does not match its checksum, and no gzip, zlib, xz or "
      "zstd data "
      "begins here: not a TFRecord file, or its first bytes are damaged; to read on behind the "
      "damage, allow bad records to be skipped",
      name);
}

OpenedSupply open_memory(std::string_view bytes, std::shared_ptr<const void> owner,
                         const std::string& name, const RecordReaderOptions& options) {
  const Compression compression = detect(bytes.substr(0, kHeaderBytes), name, options);
  if (compression == Compression::kNone) {
    return {std::make_unique<MemorySupply>(bytes, std::move(owner)), compression};
  }
  auto input = compression_internal::decompress(compression_internal::memory_input(bytes), name,
                                                compression, options.limits);
  return {std::make_unique<StreamSupply>(std::move(input), std::move(owner)), compression};
}

OpenedSupply open_remote(const Path& path, const RecordReaderOptions& options) {
  auto file = file_system_for(path).open(path);
  std::string first(kHeaderBytes, '\0');
  first.resize(file->read(first));
  const Compression compression = detect(first, path.string(), options);
  if (compression == Compression::kNone) {
    return {std::make_unique<RemoteSupply>(path, std::move(file)), compression};
  }
  file->seek(0);
  const std::shared_ptr<ReadableFile> shared = std::move(file);
  auto input = compression_internal::decompress(std::make_unique<ReadableInput>(*shared),
                                                path.string(), compression, options.limits);
  return {std::make_unique<StreamSupply>(std::move(input), shared), compression};
}

OpenedSupply open_stream(const Path& path, const RecordReaderOptions& options) {
  auto input = compression_internal::file_input(path);
  std::string first(kHeaderBytes, '\0');
  first.resize(input->read(first));
  const Compression compression = detect(first, path.string(), options);
  input = compression_internal::prefixed_input(std::move(first), std::move(input));
  input = compression_internal::decompress(std::move(input), path.string(), compression,
                                           options.limits);
  return {std::make_unique<StreamSupply>(std::move(input)), compression};
}

}  // namespace

OpenedSupply open_supply(const Path& path, const RecordReaderOptions& options) {
  if (is_remote(path)) return open_remote(path, options);
  FileSystem& files = file_system_for(path);
  const auto status = files.status(path);
  // Pipes and the like have no size: they can only be read.
  if (!status || status->size_bytes == 0) return open_stream(path, options);
  auto mapping = files.map(path);
  const std::string_view bytes = mapping->bytes();
  return open_memory(bytes, std::move(mapping), path.string(), options);
}

OpenedSupply open_supply(std::string_view bytes, const std::string& name,
                         const RecordReaderOptions& options) {
  return open_memory(bytes, nullptr, name, options);
}

}  // namespace muster::record_internal
