#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/data/records/record_index.h"
#include "muster/data/records/record_reader.h"
#include "muster/data/records/record_source.h"

namespace muster {

struct TFRecordSourceOptions {
  RecordReaderOptions reader{};
  /// Uses FILE.index if it is there and belongs to the file as it is now.
  bool use_index = true;
};

/// A TFRecord file as a row of numbered records: random access with a side index, else from front
/// to back.
class TFRecordSource final : public RecordSource {
 public:
  explicit TFRecordSource(const Path& path, TFRecordSourceOptions options = {});

  bool next(Record& out) override;
  void seek(std::uint64_t number) override;
  std::uint64_t position() const override;
  std::optional<std::uint64_t> count() const override;
  bool random_access() const override;
  std::string where(std::uint64_t number) const override;

  /// How many bad records were passed over.
  std::uint64_t skipped() const;

 private:
  void rewind();

  Path path_;
  TFRecordSourceOptions options_;
  std::optional<RecordIndex> index_;
  RecordReader reader_;
  /// Set by a seek beyond the end, where there is no record.
  std::optional<std::uint64_t> beyond_end_;
};

}  // namespace muster
