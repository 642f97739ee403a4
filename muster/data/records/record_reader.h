#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/data/records/compression.h"
#include "muster/data/records/record.h"

namespace muster {

/// The file ends inside a record, as after a crash of its writer: what is before is whole.
class TornTail : public DataLoss {
 public:
  template <typename... Args>
  explicit TornTail(std::uint64_t whole_bytes, fmt::format_string<Args...> format, Args&&... args)
      : DataLoss(format, std::forward<Args>(args)...), whole_bytes_(whole_bytes) {}

  /// Where the last whole record ends: cut the file here, and it is sound.
  std::uint64_t whole_bytes() const noexcept { return whole_bytes_; }

 private:
  std::uint64_t whole_bytes_;
};

struct RecordReaderOptions {
  /// kAuto: plain if the first record's length has its right checksum, else what the first bytes
  /// say.
  Compression compression = Compression::kAuto;
  /// Checks the data of each record. The length is always checked: without it nothing can be found.
  bool verify_checksums = true;
  /// Passes over up to this many bad records, a torn tail among them, before throwing.
  std::uint64_t skip_bad_records = 0;
  /// Told of each record that is passed over.
  std::function<void(const Error&)> on_bad_record{};
  /// A longer record is an error, found before memory is taken for it.
  std::uint64_t max_record_bytes = std::uint64_t{1} << 30;
  DecompressionLimits limits{};
};

/// Reads the records of one TFRecord file, in file order. One reader belongs to one thread.
/// A plain file is mapped, anything else (compressed, a pipe, a file of a store) is read through
/// blocks.
///
/// All offsets are those of the plain bytes: in a compressed file, of what comes out of it.
class RecordReader {
 public:
  /// Throws NotFound when there is no such file, DataLoss when it is nothing like a TFRecord file.
  explicit RecordReader(const Path& path, RecordReaderOptions options = {});
  /// Over bytes in memory, which must outlive the reader and its records; `name` stands for the
  /// file in messages.
  RecordReader(std::string_view bytes, std::string name, RecordReaderOptions options = {});
  ~RecordReader();
  RecordReader(RecordReader&&) noexcept;
  RecordReader& operator=(RecordReader&&) noexcept;

  /// The next record, or nothing at the end of the file. The view stays valid until the next call.
  ///
  /// Throws DataLoss, with file, record number and offset. If only the data is damaged, the next
  /// call continues after it; if the length is, the next call throws the same again. With
  /// skip_bad_records, reading continues at the next place where both checksums fit. Throws
  /// TornTail, each time, when the file ends inside a record, and ResourceExhausted beyond
  /// max_record_bytes.
  std::optional<std::string_view> next();
  /// The same, with a share of the mapping or block, so that the bytes outlive the reader.
  bool next(Record& out);
  /// Passes over one record without looking at its data. False at the end of the file.
  bool skip();

  /// The number of the record that next() looks at, counted from 0. A damaged record has a number;
  /// a stretch without any valid length counts as one.
  std::uint64_t record_number() const;
  /// Where that record begins.
  std::uint64_t offset() const;
  /// How many bad records were passed over.
  std::uint64_t skipped() const;

  /// Whether seek() works: for plain files that could be mapped.
  bool seekable() const;
  /// Goes on at `offset`, where record `number` begins. Throws OutOfRange beyond the end of the
  /// file, FailedPrecondition if not seekable().
  void seek(std::uint64_t offset, std::uint64_t number);
  /// Compression that the file was found to have.
  Compression compression() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
