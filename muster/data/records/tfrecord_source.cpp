#include "muster/data/records/tfrecord_source.h"

#include <utility>

#include "muster/base/error.h"

namespace muster {

TFRecordSource::TFRecordSource(const Path& path, TFRecordSourceOptions options)
    : path_(path), options_(std::move(options)), reader_(path, options_.reader) {
  if (options_.use_index) index_ = RecordIndex::load_if_valid(path);
}

bool TFRecordSource::next(Record& out) { return !beyond_end_ && reader_.next(out); }

void TFRecordSource::seek(std::uint64_t number) {
  beyond_end_.reset();
  if (random_access()) {
    const bool inside = number < index_->count();
    reader_.seek(inside ? index_->offset(number) : index_->file_bytes(), number);
    return;
  }
  if (number < reader_.record_number()) rewind();
  while (reader_.record_number() < number) {
    if (reader_.skip()) continue;
    beyond_end_ = number;
    return;
  }
}

void TFRecordSource::rewind() {
  if (reader_.seekable()) return reader_.seek(0, 0);
  reader_ = RecordReader(path_, options_.reader);
}

std::uint64_t TFRecordSource::position() const {
  return beyond_end_.value_or(reader_.record_number());
}

std::optional<std::uint64_t> TFRecordSource::count() const {
  if (!index_) return std::nullopt;
  return index_->count();
}

bool TFRecordSource::random_access() const {
  return index_ && index_->has_offsets() && reader_.seekable();
}

std::string TFRecordSource::where(std::uint64_t number) const {
  return fmt::format("{} record {}", path_.string(), number);
}

std::uint64_t TFRecordSource::skipped() const { return reader_.skipped(); }

}  // namespace muster
