#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/records/line_file.h"
#include "muster/data/records/record_source.h"
#include "muster/serving/batch/batch_job.h"
#include "muster/serving/codec/instances.h"

namespace muster::serving {

/// The instances of one file, numbered. What cannot be read is an instance too, so that counting
/// and predicting agree on the numbers: a damaged one, or one for all of the file that comes
/// after damage that hides where instances begin.
class InstanceFile {
 public:
  InstanceFile(const BatchJob& job, const graph::SignatureDef& signature, const Path& path);

  /// False at the end. On damage, `out` is empty and `error` says what is wrong.
  bool next(Record& out, std::optional<std::string>& error);
  /// With the marks that were made while it was counted.
  void seek(std::uint64_t number, const LineMarks& marks);
  std::uint64_t position() const { return ended_at_.value_or(source_->position()); }
  std::string where(std::uint64_t number) const { return source_->where(number); }
  /// Where the next instance begins, for marks.
  std::optional<std::uint64_t> offset() const;

 private:
  std::unique_ptr<RecordSource> source_;
  /// The same, if it is of lines.
  LineFile* lines_ = nullptr;
  /// After the damage.
  std::optional<std::uint64_t> ended_at_{};
};

/// Some instances as inputs.
struct DecodedBatch {
  Tensors inputs{};
  /// JSON, one per instance; none without a key field.
  std::vector<std::string> keys{};
};

/// Turns the bytes of instances into inputs. All come from one file.
class InstanceDecoder {
 public:
  virtual ~InstanceDecoder() = default;
  /// Throws InvalidArgument if any of them is wrong: ask for fewer then.
  virtual DecodedBatch decode(std::span<const std::string_view> instances) const = 0;
};

/// For a file of the job. Throws InvalidArgument as check_batch_inputs() does.
std::unique_ptr<InstanceDecoder> make_instance_decoder(const BatchJob& job,
                                                       const graph::SignatureDef& signature,
                                                       const Path& file);

}  // namespace muster::serving
