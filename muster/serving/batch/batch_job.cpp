#include "muster/serving/batch/batch_job.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/records/sharded_files.h"
#include "muster/serving/batch/batch_instances_internal.h"

namespace muster::serving {
namespace {

using graph::SignatureDef;
using nlohmann::json;

constexpr int kJobVersion = 1;
constexpr std::uint64_t kMostJobBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kMostShards = 99'999;
constexpr std::uint64_t kLeastMarkEvery = 1024;
// Even, so that every second one can go.
constexpr std::size_t kMostMarks = 1024;
constexpr const char* kFolder = ".batch_predict";
constexpr const char* kJobFile = "job.json";
constexpr const char* kResults = "prediction.results";
constexpr const char* kErrors = "prediction.errors_stats";

constexpr std::pair<BatchInput, std::string_view> kInputs[] = {
    {BatchInput::kJson, "json"},
    {BatchInput::kTFRecord, "tf-record"},
    {BatchInput::kTFRecordGzip, "tf-record-gzip"},
    {BatchInput::kCsv, "csv"},
};
constexpr std::pair<BatchOutput, std::string_view> kOutputs[] = {
    {BatchOutput::kJson, "json"},
    {BatchOutput::kCsv, "csv"},
};

std::string lower_case_with_dashes(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_') c = '-';
  }
  return out;
}

template <typename Table>
auto find_word(const Table& table, std::string_view word, const char* known) {
  const std::string wanted = lower_case_with_dashes(word);
  for (const auto& [value, name] : table) {
    if (name == wanted) return value;
  }
  throw InvalidArgument("'{}' is no format; there are {}", word, known);
}

template <typename Table, typename Value>
std::string_view find_name(const Table& table, Value wanted) {
  for (const auto& [value, name] : table) {
    if (value == wanted) return name;
  }
  throw Internal("there is no such format");
}

BatchFile file_of(const Path& path) {
  const auto status = file_system_for(path).status(path);
  if (!status) throw NotFound("there is no file {}", path.string());
  return {
      .path = path.string(), .size_bytes = status->size_bytes, .modified_ns = status->modified_ns};
}

json json_of(const BatchFile& file, bool with_records) {
  json made{
      {"path", file.path}, {"size_bytes", file.size_bytes}, {"modified_ns", file.modified_ns}};
  if (with_records) made["records"] = file.records;
  if (with_records && !file.marks.offsets.empty()) {
    made["marks"] = {{"every", file.marks.every}, {"offsets", file.marks.offsets}};
  }
  return made;
}

// None in a file of a job that was written before there were marks.
LineMarks marks_of(const json& file) {
  const auto found = file.find("marks");
  if (found == file.end()) return {};
  LineMarks marks{.every = found->at("every").get<std::uint64_t>(),
                  .offsets = found->at("offsets").get<std::vector<std::uint64_t>>()};
  if (marks.every == 0) throw DataLoss("marks have to be a line apart, or more");
  return marks;
}

BatchFile file_of(const json& value) {
  return {.path = value.at("path").get<std::string>(),
          .size_bytes = value.at("size_bytes").get<std::uint64_t>(),
          .modified_ns = value.at("modified_ns").get<std::int64_t>(),
          .records = value.value("records", std::uint64_t{0}),
          .marks = marks_of(value)};
}

json json_of(const std::vector<BatchFile>& files, bool with_records) {
  json made = json::array();
  for (const BatchFile& file : files) made.push_back(json_of(file, with_records));
  return made;
}

json json_of(const std::vector<WrittenFile>& files) {
  json made = json::array();
  for (const WrittenFile& file : files) {
    made.push_back({{"name", file.name},
                    {"size_bytes", file.bytes},
                    {"crc32c", fmt::format("{:08x}", file.crc32c)}});
  }
  return made;
}

// Parameters that have to be the same for a job to continue.
json asked_for(const BatchJob& job) {
  return {{"model_dir", job.model_dir.string()},
          {"model_files", json_of(job.model_files, false)},
          {"tags", job.tags},
          {"signature", job.signature},
          {"data_format", name_of(job.input)},
          {"output_format", name_of(job.output)},
          {"batch_size", job.batch_size},
          {"key_field", job.key_field},
          {"files", json_of(job.files, false)}};
}

std::string text_of(const BatchJob& job) {
  json made = asked_for(job);
  made["files"] = json_of(job.files, true);
  made["version"] = kJobVersion;
  made["shards"] = job.shards;
  made["threads_per_worker"] = job.threads_per_worker;
  if (job.result) {
    made["result"] = {{"predictions", job.result->predictions},
                      {"errors", job.result->errors},
                      {"seconds", job.result->seconds}};
    made["written"] = json_of(job.written);
  }
  return made.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

BatchJob job_of(const json& value) {
  if (const int version = value.at("version").get<int>(); version != kJobVersion) {
    throw DataLoss("it is of version {}; this muster reads {}", version, kJobVersion);
  }
  BatchJob job;
  job.model_dir = value.at("model_dir").get<std::string>();
  for (const json& file : value.at("model_files")) job.model_files.push_back(file_of(file));
  job.tags = value.at("tags").get<std::vector<std::string>>();
  value.at("signature").get_to(job.signature);
  job.input = parse_batch_input(value.at("data_format").get<std::string>());
  job.output = parse_batch_output(value.at("output_format").get<std::string>());
  value.at("batch_size").get_to(job.batch_size);
  value.at("key_field").get_to(job.key_field);
  for (const json& file : value.at("files")) job.files.push_back(file_of(file));
  value.at("shards").get_to(job.shards);
  value.at("threads_per_worker").get_to(job.threads_per_worker);
  if (job.batch_size < 1 || job.shards < 1 || job.shards > kMostShards) {
    throw DataLoss("batch_size or shards is out of range");
  }
  if (const auto result = value.find("result"); result != value.end()) {
    job.result = BatchCounts{.predictions = result->at("predictions").get<std::uint64_t>(),
                             .errors = result->at("errors").get<std::uint64_t>(),
                             .seconds = result->at("seconds").get<double>()};
  }
  return job;
}

Path job_path(const Path& output_path) { return batch_folder(output_path) / kJobFile; }

void check_same(const BatchJob& there, const BatchJob& wanted, const Path& output_path) {
  const json old_job = asked_for(there);
  const json new_job = asked_for(wanted);
  for (const auto& [field, value] : new_job.items()) {
    if (old_job.at(field) == value) continue;
    throw FailedPrecondition(
        "{} holds another batch prediction: {} differs. Choose another --output-path, or remove "
        "that folder",
        output_path.string(), field);
  }
}

// Results that no job of ours left there would be mixed up with ours.
void check_no_results(const Path& output_path) {
  FileSystem& files = file_system_for(output_path);
  if (!files.status(output_path)) return;
  for (const std::string& name : files.list(output_path)) {
    if (!name.starts_with(kResults) && !name.starts_with(kErrors)) continue;
    throw AlreadyExists(
        "{} holds {} of an earlier prediction. Choose another --output-path, or remove that file",
        output_path.string(), name);
  }
}

// The line that is next. Twice as far apart when they become too many.
void mark(const InstanceFile& instances, LineMarks& marks) {
  const auto offset = instances.offset();
  if (!offset || instances.position() % std::max(marks.every, kLeastMarkEvery) != 0) return;
  if (marks.every == 0) marks.every = kLeastMarkEvery;
  if (marks.offsets.size() == kMostMarks) {
    marks.every *= 2;
    for (std::size_t i = 0; i < kMostMarks / 2; ++i) marks.offsets[i] = marks.offsets[2 * i];
    marks.offsets.resize(kMostMarks / 2);
  }
  marks.offsets.push_back(*offset);
}

void count_instances(BatchJob& job, const SignatureDef& signature) {
  for (BatchFile& file : job.files) {
    InstanceFile instances(job, signature, file.path);
    Record record;
    std::optional<std::string> error;
    do {
      mark(instances, file.marks);
    } while (instances.next(record, error));
    file.records = instances.position();
  }
}

std::uint64_t batches_of(const BatchJob& job) {
  std::uint64_t batches = 0;
  const auto size = static_cast<std::uint64_t>(job.batch_size);
  for (const BatchFile& file : job.files) batches += (file.records + size - 1) / size;
  return batches;
}

}  // namespace

BatchInput parse_batch_input(std::string_view word) {
  if (lower_case_with_dashes(word) == "text") return BatchInput::kJson;
  return find_word(kInputs, word, "json (also called text), tf-record, tf-record-gzip and csv");
}

BatchOutput parse_batch_output(std::string_view word) {
  return find_word(kOutputs, word, "json and csv");
}

std::string_view name_of(BatchInput format) { return find_name(kInputs, format); }
std::string_view name_of(BatchOutput format) { return find_name(kOutputs, format); }

BatchCounts& BatchCounts::operator+=(const BatchCounts& other) {
  predictions += other.predictions;
  errors += other.errors;
  seconds += other.seconds;
  return *this;
}

std::uint64_t BatchJob::records() const {
  std::uint64_t sum = 0;
  for (const BatchFile& file : files) sum += file.records;
  return sum;
}

std::uint64_t BatchJob::first_record(std::uint64_t shard) const {
  // Whole numbers below 2^64 for any count that fits a disk: shards are below 10^5.
  const std::uint64_t all = records();
  return all / shards * shard + all % shards * shard / shards;
}

std::vector<BatchFile> model_files_of(const Path& model_dir) {
  std::vector<BatchFile> found;
  FileSystem& files = file_system_for(model_dir);
  for (const Path& folder : {model_dir, model_dir / "variables"}) {
    if (!files.status(folder)) continue;
    for (const std::string& name : files.list(folder)) {
      const auto status = files.status(folder / name);
      if (!status || status->is_directory) continue;
      found.push_back(file_of(folder / name));
    }
  }
  return found;
}

std::vector<BatchFile> input_files_of(const std::vector<std::string>& patterns) {
  std::vector<BatchFile> found;
  for (const Path& path : expand_files(patterns)) {
    const auto status = file_system_for(path).status(path);
    if (status && status->is_directory) {
      throw InvalidArgument("{} is a folder; {}/* names the files in it", path.string(),
                            path.string());
    }
    // Whatever folder the next command is given in, it is the same file.
    const bool is_local = path.string().find("://") == std::string::npos;
    found.push_back(file_of(is_local ? std::filesystem::absolute(path) : path));
  }
  return found;
}

void check_batch_inputs(const BatchJob& job, const SignatureDef& signature) {
  for (const BatchFile& file : job.files) make_instance_decoder(job, signature, file.path);
}

BatchJob read_batch_job(const Path& output_path) {
  const Path path = job_path(output_path);
  try {
    return job_of(json::parse(read_file(path, kMostJobBytes)));
  } catch (const json::exception& error) {
    throw DataLoss("{} is damaged: {}", path.string(), error.what());
  } catch (Error& error) {
    error.add_context(path.string());
    throw;
  }
}

BatchJob open_batch_job(const Path& output_path, BatchJob job, const SignatureDef& signature) {
  if (file_exists(job_path(output_path))) {
    const BatchJob there = read_batch_job(output_path);
    check_same(there, job, output_path);
    return there;
  }
  check_no_results(output_path);
  check_batch_inputs(job, signature);
  count_instances(job, signature);
  if (job.records() == 0) throw InvalidArgument("the input files hold no instance");
  job.shards = std::min({job.shards, batches_of(job), kMostShards});
  file_system_for(output_path).create_directories(batch_folder(output_path));
  write_file_atomically(job_path(output_path), text_of(job));
  return job;
}

void finish_batch_job(const Path& output_path, BatchJob& job, const BatchCounts& result,
                      std::vector<WrittenFile> written) {
  job.result = result;
  job.written = std::move(written);
  write_file_atomically(job_path(output_path), text_of(job));
  const Path folder = batch_folder(output_path);
  FileSystem& files = file_system_for(folder);
  for (const std::string& name : files.list(folder)) {
    if (name != kJobFile) files.remove(folder / name);
  }
}

Path batch_folder(const Path& output_path) { return output_path / kFolder; }

Path batch_shard_path(const Path& output_path, std::uint64_t shard, std::string_view suffix) {
  return batch_folder(output_path) / fmt::format("shard-{:05}.{}", shard, suffix);
}

Path batch_results_path(const Path& output_path, const BatchJob& job, std::uint64_t shard) {
  return output_path / shard_name(kResults, shard, job.shards);
}

Path batch_errors_path(const Path& output_path, const BatchJob& job, std::uint64_t shard) {
  return output_path / shard_name(kErrors, shard, job.shards);
}

}  // namespace muster::serving
