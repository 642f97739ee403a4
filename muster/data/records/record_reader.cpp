#include "muster/data/records/record_reader.h"

#include <algorithm>
#include <utility>

#include "muster/base/crc32c.h"
#include "muster/base/unaligned.h"
#include "muster/data/records/record_supply_internal.h"

namespace muster {

using record_internal::has_valid_length;
using record_internal::kFooterBytes;
using record_internal::kHeaderBytes;
using record_internal::OpenedSupply;
using record_internal::RecordSupply;

namespace {

constexpr std::size_t kFrameBytes = kHeaderBytes + kFooterBytes;

std::uint64_t length_at(std::string_view frame) {
  return load_unaligned<std::uint64_t>(frame.data());
}

/// Whether the data of the record at the front of `view`, all of it there, matches its checksum.
bool has_valid_data(std::string_view view) {
  const std::string_view data(view.data() + kHeaderBytes, length_at(view));
  return mask_crc(crc32c(data)) == load_unaligned<std::uint32_t>(data.data() + data.size());
}

}  // namespace

struct RecordReader::Impl {
  Impl(std::string file, RecordReaderOptions reader_options, OpenedSupply opened)
      : name(std::move(file)),
        options(std::move(reader_options)),
        supply(std::move(opened.supply)),
        compression(opened.compression) {}

  const std::string name;
  const RecordReaderOptions options;
  const std::unique_ptr<RecordSupply> supply;
  const Compression compression;
  /// Bytes that are there and not yet read; record `number` begins with it, at `offset`.
  std::string_view view;
  std::uint64_t offset = 0;
  std::uint64_t number = 0;
  std::uint64_t skipped = 0;

  /// Makes `size` bytes visible. False where the file ends before.
  bool have(std::size_t size) {
    if (view.size() >= size) return true;
    view = supply->more(view, size);
    if (view.size() >= size) return true;
    check_supply();
    return false;
  }

  void check_supply() const {
    try {
      supply->check();
    } catch (Error& error) {
      error.add_context(where());
      throw;
    }
  }

  /// No file is near 2^62 bytes long, and sums with a length stay clear of overflow.
  std::uint64_t max_length() const {
    return std::min(options.max_record_bytes, std::uint64_t{1} << 62);
  }

  std::string where() const { return fmt::format("{} record {} at byte {}", name, number, offset); }

  void advance(std::size_t bytes) {
    view.remove_prefix(bytes);
    offset += bytes;
  }

  /// Leaves a record of this size behind; 0 is no record.
  void pass(std::size_t frame_bytes) {
    advance(frame_bytes);
    number += frame_bytes != 0;
  }

  /// Counts a bad record, or throws it if no more may be passed over.
  template <typename Failure>
  void pass_over(const Failure& failure) {
    if (skipped >= options.skip_bad_records) throw failure;
    ++skipped;
    if (options.on_bad_record) options.on_bad_record(failure);
  }

  std::size_t find_frame();
  std::optional<std::string_view> next();
  bool skip();
  [[noreturn]] void fail_too_long(std::uint64_t length) const;
  void pass_over_torn_tail(std::size_t wanted);
  void pass_over_bad_data(std::size_t size);
  void pass_over_bad_length();
  void resynchronise();
  bool record_begins_here();
};

/// The size of the record that is next, checksums included, all of it visible; its data is not
/// looked at. 0 at the end of the file.
std::size_t RecordReader::Impl::find_frame() {
  while (have(kHeaderBytes)) {
    if (!has_valid_length(view)) {
      pass_over_bad_length();
      continue;
    }
    const std::uint64_t length = length_at(view);
    if (length > max_length()) fail_too_long(length);
    if (have(length + kFrameBytes)) return length + kFrameBytes;
    pass_over_torn_tail(length + kFrameBytes);
  }
  if (!view.empty()) pass_over_torn_tail(kHeaderBytes);
  return 0;
}

std::optional<std::string_view> RecordReader::Impl::next() {
  while (const std::size_t size = find_frame()) {
    if (options.verify_checksums && !has_valid_data(view)) {
      pass_over_bad_data(size);
      continue;
    }
    const std::string_view data(view.data() + kHeaderBytes, size - kFrameBytes);
    pass(size);
    return data;
  }
  return std::nullopt;
}

bool RecordReader::Impl::skip() {
  const std::size_t size = find_frame();
  pass(size);
  return size != 0;
}

void RecordReader::Impl::fail_too_long(std::uint64_t length) const {
  throw ResourceExhausted("{}: it is {} bytes long, more than {}; raise max_record_bytes", where(),
                          length, max_length());
}

void RecordReader::Impl::pass_over_bad_data(std::size_t size) {
  const DataLoss failure("{}: its data ({} bytes) does not match its checksum", where(),
                         size - kFrameBytes);
  // First, so that the next call continues after it if this one throws.
  pass(size);
  pass_over(failure);
}

void RecordReader::Impl::pass_over_torn_tail(std::size_t wanted) {
  pass_over(TornTail(
      offset,
      "{}: the file ends inside this record, {} bytes before the end of its {}; the {} "
      "records before it are whole, up to byte {}",
      where(), wanted - view.size(), wanted == kHeaderBytes ? "length" : "data", number, offset));
  advance(view.size());
}

void RecordReader::Impl::pass_over_bad_length() {
  pass_over(
      DataLoss("{}: its length does not match its checksum, so the next record cannot be found; "
               "allow bad records to be skipped to search for it",
               where()));
  resynchronise();
  ++number;
}

/// Goes to the next place where both checksums fit, or to the end. A wrong place fits once in 2^64.
void RecordReader::Impl::resynchronise() {
  do {
    advance(1);
  } while (have(kHeaderBytes) && !record_begins_here());
  if (view.size() < kHeaderBytes) advance(view.size());
}

bool RecordReader::Impl::record_begins_here() {
  if (!has_valid_length(view)) return false;
  const std::uint64_t length = length_at(view);
  return length <= max_length() && have(length + kFrameBytes) && has_valid_data(view);
}

RecordReader::RecordReader(const Path& path, RecordReaderOptions options) {
  auto opened = record_internal::open_supply(path, options);
  impl_ = std::make_unique<Impl>(path.string(), std::move(options), std::move(opened));
}

RecordReader::RecordReader(std::string_view bytes, std::string name, RecordReaderOptions options) {
  auto opened = record_internal::open_supply(bytes, name, options);
  impl_ = std::make_unique<Impl>(std::move(name), std::move(options), std::move(opened));
}

RecordReader::~RecordReader() = default;
RecordReader::RecordReader(RecordReader&&) noexcept = default;
RecordReader& RecordReader::operator=(RecordReader&&) noexcept = default;

std::optional<std::string_view> RecordReader::next() { return impl_->next(); }

bool RecordReader::next(Record& out) {
  const auto data = impl_->next();
  if (!data) return false;
  out.bytes = *data;
  const auto& share = impl_->supply->share();
  // Most records are where the one before did: counting the share again costs more than this look.
  if (out.owner != share) out.owner = share;
  return true;
}

bool RecordReader::skip() { return impl_->skip(); }
std::uint64_t RecordReader::record_number() const { return impl_->number; }
std::uint64_t RecordReader::offset() const { return impl_->offset; }
std::uint64_t RecordReader::skipped() const { return impl_->skipped; }
bool RecordReader::seekable() const { return impl_->supply->seekable_bytes().has_value(); }
Compression RecordReader::compression() const { return impl_->compression; }

void RecordReader::seek(std::uint64_t offset, std::uint64_t number) {
  const auto size = impl_->supply->seekable_bytes();
  if (!size) {
    throw FailedPrecondition("{} is compressed or a pipe: it can only be read from front to back",
                             impl_->name);
  }
  if (offset > *size) {
    throw OutOfRange("{}: no byte {} to go to, the file has {}", impl_->name, offset, *size);
  }
  impl_->view = impl_->supply->seek(offset);
  impl_->offset = offset;
  impl_->number = number;
}

}  // namespace muster
