#include "muster/data/records/record_writer.h"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/data/records/compressor_internal.h"
#include "muster/data/records/record_index.h"
#include "muster/data/records/record_supply_internal.h"

namespace muster {

using record_internal::kFooterBytes;
using record_internal::kHeaderBytes;

namespace {

/// The file grows by whole pieces of this size, so that the kernel keeps it in large pages: mapping
/// them later costs next to nothing (measured: files written in 256 KiB pieces map at half the
/// speed).
constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

void store_crc(char* out, std::string_view bytes) {
  const std::uint32_t masked = mask_crc(crc32c(bytes));
  std::memcpy(out, &masked, sizeof(masked));
}

std::array<char, kHeaderBytes> header_of(std::uint64_t length) {
  std::array<char, kHeaderBytes> header;
  std::memcpy(header.data(), &length, sizeof(length));
  store_crc(header.data() + sizeof(length), {header.data(), sizeof(length)});
  return header;
}

/// The file being written, under a temporary name or its own.
class Target {
 public:
  Target(const Path& path, const RecordWriterOptions& options) : durable_(options.durable) {
    if (options.atomic) {
      atomic_ = std::make_unique<AtomicFile>(path);
    } else if (SharedFileSystem* files = shared_file_system_for(path)) {
      in_place_ = files->create_growing(path);
      grows_ = true;
    } else {
      in_place_ = file_system_for(path).create(path);
    }
  }

  WritableFile& file() { return atomic_ ? atomic_->file() : *in_place_; }
  bool atomic() const { return atomic_ != nullptr; }
  /// Shows others what was written so far, where that takes more than writing it.
  void show() {
    if (grows_) in_place_->sync();
  }

  void publish() {
    if (atomic_) return atomic_->commit(durable_);
    if (durable_) in_place_->sync();
    in_place_->close();
  }

 private:
  bool durable_;
  bool grows_ = false;
  std::unique_ptr<AtomicFile> atomic_;
  std::unique_ptr<WritableFile> in_place_;
};

}  // namespace

struct RecordWriter::Impl {
  Impl(const Path& file, const RecordWriterOptions& writer_options)
      : path(file),
        options(writer_options),
        target(file, writer_options),
        compressor(compression_internal::make_compressor(target.file(), options.compression,
                                                         options.level)),
        buffer(new char[kBufferBytes]) {}

  const Path path;
  const RecordWriterOptions options;
  Target target;
  const std::unique_ptr<compression_internal::Compressor> compressor;
  /// Not set to zeros: a small file touches only the part that it uses.
  const std::unique_ptr<char[]> buffer;
  std::size_t used = 0;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> offsets;
  bool closed = false;

  void write_buffer() {
    compressor->write({buffer.get(), used});
    used = 0;
  }

  void put(std::string_view piece) {
    while (piece.size() > kBufferBytes - used) {
      const std::size_t count = piece.copy(buffer.get() + used, kBufferBytes - used);
      piece.remove_prefix(count);
      used += count;
      write_buffer();
    }
    used += piece.copy(buffer.get() + used, piece.size());
  }

  void append(std::string_view record) {
    if (closed) throw FailedPrecondition("{} is closed: nothing can be appended", path.string());
    const auto header = header_of(record.size());
    std::array<char, kFooterBytes> footer;
    store_crc(footer.data(), record);
    put({header.data(), header.size()});
    put(record);
    put({footer.data(), footer.size()});
    if (options.write_index && options.compression == Compression::kNone) offsets.push_back(bytes);
    ++records;
    bytes += header.size() + record.size() + footer.size();
  }

  void flush() {
    write_buffer();
    compressor->flush();
    target.show();
  }

  void close() {
    closed = true;
    write_buffer();
    compressor->finish();
    target.publish();
    if (options.write_index) write_index();
  }

  void write_index() const {
    const auto status = file_system_for(path).status(path);
    if (!status) throw NotFound("{} went away while its index was written", path.string());
    const auto index = options.compression == Compression::kNone
                           ? RecordIndex::from_offsets(offsets, *status)
                           : RecordIndex::from_count(records, *status);
    index.write(path);
  }
};

RecordWriter::RecordWriter(const Path& path, const RecordWriterOptions& options)
    : impl_(std::make_unique<Impl>(path, options)) {}

RecordWriter::~RecordWriter() {
  if (!impl_ || impl_->closed || impl_->target.atomic()) return;
  try {
    impl_->close();
  } catch (const Error& error) {
    log::error("{} is incomplete: {}", impl_->path.string(), error.what());
  }
}

RecordWriter::RecordWriter(RecordWriter&&) noexcept = default;
RecordWriter& RecordWriter::operator=(RecordWriter&&) noexcept = default;

void RecordWriter::append(std::string_view record) { impl_->append(record); }

void RecordWriter::flush() {
  if (!impl_->closed) impl_->flush();
}

void RecordWriter::close() {
  if (!impl_->closed) impl_->close();
}

std::uint64_t RecordWriter::records() const { return impl_->records; }
std::uint64_t RecordWriter::bytes() const { return impl_->bytes; }

}  // namespace muster
