#include "muster/data/dataset/cache.h"

#include "muster/data/records/record_writer.h"
#include "muster/data/records/tfrecord_source.h"

namespace muster {
namespace {

class TFRecordCacheReader final : public CacheFile::Reader {
 public:
  explicit TFRecordCacheReader(const Path& path) : source_(path) {}
  bool next(Record& out) override { return source_.next(out); }
  void seek(std::uint64_t number) override { source_.seek(number); }

 private:
  TFRecordSource source_;
};

class TFRecordCacheWriter final : public CacheFile::Writer {
 public:
  // Not durable: a cache that a crash of the machine takes is rebuilt.
  explicit TFRecordCacheWriter(const Path& path)
      : writer_(path, {.atomic = true, .durable = false, .write_index = true}) {}
  void add(std::string_view bytes) override { writer_.append(bytes); }
  void complete() override { writer_.close(); }

 private:
  RecordWriter writer_;
};

}  // namespace

std::unique_ptr<CacheFile::Reader> CacheFile::reader() const {
  if (!file_exists(path_)) return nullptr;
  return std::make_unique<TFRecordCacheReader>(path_);
}

std::unique_ptr<CacheFile::Writer> CacheFile::writer() const {
  return std::make_unique<TFRecordCacheWriter>(path_);
}

CacheCodec<Record> record_codec() {
  return {.encode = [](const Record& record) { return std::string(record.bytes); },
          .decode = [](const Record& record) { return record; }};
}

CacheCodec<std::string> string_codec() {
  return {.encode = [](const std::string& text) { return text; },
          .decode = [](const Record& record) { return std::string(record.bytes); }};
}

}  // namespace muster
