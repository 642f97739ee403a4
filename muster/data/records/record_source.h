#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/file_system.h"
#include "muster/data/records/record.h"
#include "muster/data/records/record_table.h"

namespace muster {

/// One file as a row of numbered records: what every format offers to dataset/. Belongs to one
/// thread.
class RecordSource {
 public:
  virtual ~RecordSource() = default;

  /// The next record, or false at the end of the file. Errors name the file, the record and the
  /// offset; after a record that could be passed over, the next call continues after it, else it
  /// throws again.
  virtual bool next(Record& out) = 0;
  /// Goes to a record by its number, counted from 0: at once where the format or a side index
  /// allows, else by reading up to it. Beyond the end, next() gives false.
  virtual void seek(std::uint64_t number) = 0;
  /// The number of the record that next() will give.
  virtual std::uint64_t position() const = 0;
  /// How many records there are, if that is known without reading the file.
  virtual std::optional<std::uint64_t> count() const = 0;
  /// Whether seek() takes the same short time for every number.
  virtual bool random_access() const = 0;
  /// Where a record is, for messages: "train.csv line 17", "train.tfrecords record 16".
  virtual std::string where(std::uint64_t number) const = 0;

  /// Notes from now on where records lie, up to `most` of them, for table(). Only before the first
  /// next(); formats that cannot do so leave it.
  virtual void note_places(std::uint64_t most) { (void)most; }
  /// All records of the file, once next() has given each of them after note_places() and come to
  /// the end; nothing where places were not noted, or the file has changed meanwhile.
  virtual std::shared_ptr<const RecordTable> table() const { return nullptr; }
};

/// Opens one file in some format with some options.
using RecordSourceOpener = std::function<std::unique_ptr<RecordSource>(const Path&)>;

}  // namespace muster
