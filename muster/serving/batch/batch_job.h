#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/saved_model/graph/saved_model.h"

/// Batch prediction: files of instances into files of predictions, shard by shard. A job is a
/// folder, from which another process can resume where the last was killed. docs/formats/
/// batch_prediction.md has the layout. No libtorch: what computes is handed in (batch_shard.h).
namespace muster::serving {

enum class BatchInput { kJson, kTFRecord, kTFRecordGzip, kCsv };
enum class BatchOutput { kJson, kCsv };

/// "json" (or "text"), "tf-record", "tf-record-gzip", "csv"; also as ML Engine's API spells them,
/// "TF_RECORD". Throws InvalidArgument on another word.
BatchInput parse_batch_input(std::string_view word);
/// "json" or "csv". Throws InvalidArgument.
BatchOutput parse_batch_output(std::string_view word);
std::string_view name_of(BatchInput format);
std::string_view name_of(BatchOutput format);

/// Where every so manyth line of a file begins, so that workers need not read up to theirs.
struct LineMarks {
  /// Lines from one to the next; 0: there are none.
  std::uint64_t every = 0;
  /// In bytes.
  std::vector<std::uint64_t> offsets{};

  bool operator==(const LineMarks&) const = default;
};

/// A file in the state that a job was planned with.
struct BatchFile {
  std::string path{};
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  /// Number of instances in an input file.
  std::uint64_t records = 0;
  /// Line marks of an uncompressed file of lines.
  LineMarks marks{};

  bool operator==(const BatchFile&) const = default;
};

/// A file with this many bytes of this CRC-32C.
struct WrittenFile {
  std::string name{};
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;

  bool operator==(const WrittenFile&) const = default;
};

/// Outcome counts of a job, or of one shard.
struct BatchCounts {
  std::uint64_t predictions = 0;
  std::uint64_t errors = 0;
  /// That processes spent on it.
  double seconds = 0;

  BatchCounts& operator+=(const BatchCounts& other);
};

struct BatchJob {
  /// The SavedModel itself, and what of it the answers depend on.
  Path model_dir{};
  std::vector<BatchFile> model_files{};
  std::vector<std::string> tags{};
  std::string signature{};
  BatchInput input = BatchInput::kJson;
  BatchOutput output = BatchOutput::kJson;
  std::int64_t batch_size = 64;
  /// A field of each instance that is copied to its prediction, and, unless the signature has such
  /// an input, is not shown to the model. Empty: none.
  std::string key_field{};
  /// Sorted; the instances of all of them, in this order, are what shards are cut from.
  std::vector<BatchFile> files{};
  std::uint64_t shards = 1;
  /// With which every worker computes: another number could round differently after a resume.
  std::int64_t threads_per_worker = 1;
  /// Once it has ended.
  std::optional<BatchCounts> result{};
  /// Then also what it wrote.
  std::vector<WrittenFile> written{};

  std::uint64_t records() const;
  /// The number of the first instance of a shard; of the one after the last shard, records().
  std::uint64_t first_record(std::uint64_t shard) const;
};

/// The files of a SavedModel folder that its answers depend on, as they are now.
std::vector<BatchFile> model_files_of(const Path& model_dir);

/// The files that the patterns name, with their sizes and times, instances not counted yet. Throws
/// NotFound for a pattern without a file.
std::vector<BatchFile> input_files_of(const std::vector<std::string>& patterns);

/// Throws InvalidArgument, in words for a user, when instances of this format cannot be inputs of
/// the signature, or when a CSV file's columns do not name its inputs.
void check_batch_inputs(const BatchJob& job, const graph::SignatureDef& signature);

/// Finds the job of an output folder that is the same as `job`, or makes it one: then instances are
/// counted and shards are cut, as many as `job` asks for or as there are batches. Throws
/// FailedPrecondition, naming what differs, for a folder with another job, AlreadyExists for one
/// with results of unknown origin, InvalidArgument for no instance at all.
BatchJob open_batch_job(const Path& output_path, BatchJob job,
                        const graph::SignatureDef& signature);
/// Throws NotFound, or DataLoss naming the file.
BatchJob read_batch_job(const Path& output_path);
/// Notes the result and what was written, and removes what is needed no more. All shards are
/// published.
void finish_batch_job(const Path& output_path, BatchJob& job, const BatchCounts& result,
                      std::vector<WrittenFile> written);

/// Where a job in progress keeps what is not published yet.
Path batch_folder(const Path& output_path);
/// There: shard-00000.results, with this suffix.
Path batch_shard_path(const Path& output_path, std::uint64_t shard, std::string_view suffix);
/// prediction.results-00000-of-00010, prediction.errors_stats-00000-of-00010.
Path batch_results_path(const Path& output_path, const BatchJob& job, std::uint64_t shard);
Path batch_errors_path(const Path& output_path, const BatchJob& job, std::uint64_t shard);

}  // namespace muster::serving
