#include "muster/serving/batch/batch_shard.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/open_file.h"
#include "muster/serving/batch/batch_deaths.h"
#include "muster/serving/batch/batch_instances_internal.h"
#include "muster/serving/batch/prediction_step.h"
#include "muster/serving/codec/predict_request.h"
#include "muster/serving/codec/predictions.h"

namespace muster::serving {
namespace {

using graph::SignatureDef;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMostStateBytes = 1 << 16;
// Lines are handed to the system in pieces of this size.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

// --------------------------------------------------------------------------------- files of a
// shard

/// The lines of a shard that is not published yet. What lies behind the last save is cut off when
/// it is opened.
class PartFile {
 public:
  PartFile(const Path& path, std::uint64_t saved_bytes, std::uint32_t saved_crc32c)
      : file_(path, O_RDWR | O_CREAT), bytes_(saved_bytes), crc32c_(saved_crc32c) {
    if (::ftruncate(file_.get(), static_cast<off_t>(saved_bytes)) != 0 ||
        ::lseek(file_.get(), 0, SEEK_END) < 0) {
      throw_errno(errno, "cutting " + path.string());
    }
  }

  void add_line(std::string_view line) {
    pending_ += line;
    pending_ += '\n';
    if (pending_.size() >= kPieceBytes) flush();
  }

  /// Whole lines.
  void add_lines(std::string_view lines) {
    pending_ += lines;
    if (pending_.size() >= kPieceBytes) flush();
  }

  /// Hands all lines to the system.
  void flush() {
    std::string_view left = pending_;
    while (!left.empty()) {
      const ssize_t count = ::write(file_.get(), left.data(), left.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw_errno(errno, "writing " + file_.path().string());
      left.remove_prefix(static_cast<std::size_t>(count));
    }
    bytes_ += pending_.size();
    crc32c_ = muster::crc32c(pending_, crc32c_);
    pending_.clear();
  }

  /// Returns when what was flushed is on the disk. Any thread may call it, while others add lines.
  void sync() const {
    if (::fdatasync(file_.get()) != 0) throw_errno(errno, "syncing " + file_.path().string());
  }

  /// Of flushed lines.
  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t crc32c() const { return crc32c_; }

 private:
  OpenFile file_;
  std::uint64_t bytes_;
  std::uint32_t crc32c_;
  std::string pending_{};
};

// The CRC-32C of the first bytes of a file; nothing where it has fewer.
std::optional<std::uint32_t> crc32c_of(const Path& path, std::uint64_t bytes) {
  if (bytes == 0) return 0;
  if (!file_exists(path)) return std::nullopt;
  const OpenFile file(path, O_RDONLY);
  std::string piece(kPieceBytes, '\0');
  std::uint32_t crc = 0;
  while (bytes > 0) {
    const ssize_t count =
        ::read(file.get(), piece.data(), std::min<std::uint64_t>(piece.size(), bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno(errno, "reading " + path.string());
    if (count == 0) return std::nullopt;
    crc = crc32c(std::string_view(piece).substr(0, static_cast<std::size_t>(count)), crc);
    bytes -= static_cast<std::uint64_t>(count);
  }
  return crc;
}

std::string hexadecimal(std::uint32_t crc) { return fmt::format("{:08x}", crc); }

std::uint32_t parse_crc(const json& value) {
  const auto text = value.get<std::string>();
  std::uint32_t crc = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw DataLoss("\"{}\" is no checksum", text);
  }
  return crc;
}

// Everything but the checksum of it.
json json_of(const ShardState& state) {
  return {{"records", state.records},
          {"result_bytes", state.result_bytes},
          {"error_bytes", state.error_bytes},
          {"result_crc32c", hexadecimal(state.result_crc32c)},
          {"error_crc32c", hexadecimal(state.error_crc32c)},
          {"predictions", state.counts.predictions},
          {"errors", state.counts.errors},
          {"seconds", state.counts.seconds},
          {"complete", state.complete}};
}

void write_state(const Path& output_path, std::uint64_t shard, const ShardState& state) {
  json made = json_of(state);
  made["crc32c"] = hexadecimal(crc32c(made.dump()));
  write_file_atomically(batch_shard_path(output_path, shard, "json"), made.dump(1) + "\n");
}

// A move that may have been made before a kill.
void move_once(const Path& from, const Path& to) {
  FileSystem& files = file_system_for(from);
  if (files.status(from)) {
    files.rename(from, to);
  } else if (!files.status(to)) {
    throw DataLoss("neither {} nor {} is there, and the shard is complete", from.string(),
                   to.string());
  }
}

void publish(const Path& output_path, const BatchJob& job, std::uint64_t shard) {
  move_once(batch_shard_path(output_path, shard, "errors"),
            batch_errors_path(output_path, job, shard));
  move_once(batch_shard_path(output_path, shard, "results"),
            batch_results_path(output_path, job, shard));
  file_system_for(output_path).sync_directory(output_path);
}

// ------------------------------------------------------------------------------------- predictions

/// An instance of a batch, and then what became of it.
struct Slot {
  Record record{};
  /// In its file, and in the job.
  std::uint64_t number = 0;
  std::uint64_t place = 0;
  /// What went wrong; else its prediction is written.
  std::optional<std::string> error{};
};

std::string csv_field(std::string text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

// A string as it is, everything else as JSON.
std::string csv_text(const std::string& value) {
  if (!value.starts_with('"')) return csv_field(value);
  return csv_field(json::parse(value).get<std::string>());
}

/// Lays out the lines of results.
class LineWriter {
 public:
  LineWriter(const BatchJob& job, const SignatureDef& signature)
      : format_(job.output), key_field_(job.key_field) {
    for (const auto& row : signature.outputs) outputs_.push_back(row.first);
    // A model that hands the key on by itself has it among its outputs.
    if (signature.outputs.contains(key_field_)) key_field_.clear();
    if (!key_field_.empty()) key_name_ = json_string_lossy(key_field_);
  }

  /// Empty for a format without one.
  std::string header() const {
    if (format_ == BatchOutput::kJson) return {};
    std::string line = csv_field(key_field_);
    for (const std::string& name : outputs_) {
      if (!line.empty()) line += ',';
      line += csv_field(name);
    }
    return line;
  }

  /// Appends the line of a row, ended.
  void append(const Predictions& predictions, std::int64_t row, const std::string* key,
              std::string& out) const {
    if (key_field_.empty()) key = nullptr;
    if (format_ == BatchOutput::kCsv) {
      append_csv(predictions, row, key, out);
    } else {
      append_json(predictions, row, key, out);
    }
    out += '\n';
  }

 private:
  void append_json(const Predictions& predictions, std::int64_t row, const std::string* key,
                   std::string& out) const {
    out += '{';
    if (key != nullptr) {
      out += key_name_;
      out += ": ";
      out += *key;
      if (!outputs_.empty()) out += ", ";
    }
    predictions.append_fields(row, out);
    out += '}';
  }

  void append_csv(const Predictions& predictions, std::int64_t row, const std::string* key,
                  std::string& out) const {
    if (key != nullptr) out += csv_text(*key);
    bool is_first = key == nullptr;
    for (const std::string& name : outputs_) {
      if (!std::exchange(is_first, false)) out += ',';
      out += csv_text(predictions.json(row, name));
    }
  }

  BatchOutput format_;
  std::string key_field_;
  std::string key_name_{};
  std::vector<std::string> outputs_{};
};

/// Answers the instances of one batch. Those that fail are found by halving, so that the others are
/// answered; the same instances are always asked in the same groups, and get the same answers.
class BatchAnswers {
 public:
  BatchAnswers(const LineWriter& lines, const AnswerBatch& answer, const Path& output_path,
               std::uint64_t shard)
      : lines_(lines),
        answer_(answer),
        mark_(output_path, shard),
        deaths_(read_deaths(output_path, shard)) {}

  /// Whether processes have died of some of these.
  bool are_deadly(const InstanceGroup& group) const {
    return std::ranges::any_of(deaths_, [&](const GroupDeaths& known) {
      return known.is_deadly && known.group.first >= group.first &&
             known.group.first < group.first + group.count;
    });
  }

  /// Appends the lines of those that are answered, in their order.
  void run(std::span<Slot*> slots, const InstanceDecoder& decoder, std::string& lines) const {
    if (slots.empty()) return;
    const InstanceGroup group{.first = slots.front()->place, .count = slots.size()};
    const auto known = std::ranges::find(deaths_, group, &GroupDeaths::group);
    if (known != deaths_.end() && known->is_deadly) {
      if (slots.size() > 1) return run_halves(slots, decoder, lines);
      slots[0]->error = failure_text(
          kRunStep, fmt::format("the process that computed it was ended by {}", known->signal));
      return;
    }
    mark_.begin(group);
    const bool is_done = run_together(slots, decoder, lines);
    mark_.end();
    if (!is_done) run_halves(slots, decoder, lines);
  }

 private:
  void run_halves(std::span<Slot*> slots, const InstanceDecoder& decoder,
                  std::string& lines) const {
    const std::size_t half = slots.size() / 2;
    run(slots.first(half), decoder, lines);
    run(slots.subspan(half), decoder, lines);
  }

  // False where some of several fail.
  bool run_together(std::span<Slot*> slots, const InstanceDecoder& decoder,
                    std::string& lines) const {
    std::vector<std::string_view> texts;
    for (const Slot* slot : slots) texts.push_back(slot->record.bytes);
    try {
      DecodedBatch batch = in_step(kInputsStep, [&] { return decoder.decode(texts); });
      Tensors outputs = in_step(kRunStep, [&] { return answer_(std::move(batch.inputs)); });
      const Predictions predictions = in_step(kOutputsStep, [&] {
        Predictions made(std::move(outputs));
        if (made.size() != static_cast<std::int64_t>(slots.size())) {
          throw InvalidArgument("the model gave {} rows for {} instances", made.size(),
                                slots.size());
        }
        return made;
      });
      write_lines(slots, predictions, batch.keys, lines);
    } catch (const Error& error) {
      if (slots.size() > 1) return false;
      slots[0]->error = error.what();
    }
    return true;
  }

  void write_lines(std::span<Slot*> slots, const Predictions& predictions,
                   const std::vector<std::string>& keys, std::string& lines) const {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const std::size_t begin = lines.size();
      try {
        in_step(kOutputsStep, [&] {
          lines_.append(predictions, static_cast<std::int64_t>(i),
                        keys.empty() ? nullptr : &keys[i], lines);
        });
      } catch (const Error& error) {
        lines.resize(begin);
        slots[i]->error = error.what();
      }
    }
  }

  const LineWriter& lines_;
  const AnswerBatch& answer_;
  GroupMark mark_;
  std::vector<GroupDeaths> deaths_;
};

std::string error_line(const std::string& instance, const std::string& error) {
  return fmt::format(R"({{"instance": {}, "error": {}}})", json_string_lossy(instance),
                     json_string_lossy(error));
}

void check_unchanged(const BatchFile& file) {
  const auto status = file_system_for(file.path).status(file.path);
  if (!status) throw NotFound("{} is gone, and the job has instances of it to do", file.path);
  if (status->size_bytes == file.size_bytes && status->modified_ns == file.modified_ns) return;
  throw FailedPrecondition(
      "{} has changed since the job began: its predictions would not belong together. Start again "
      "with another --output-path",
      file.path);
}

/// The input file that was read last. It stays open: where there are no marks, rows have to be read
/// up to the first one of a shard, and the next shard of a worker begins behind the last one.
class OpenInput {
 public:
  OpenInput(const BatchJob& job, const SignatureDef& signature)
      : job_(job), signature_(signature) {}

  struct Reader {
    std::string path;
    std::unique_ptr<InstanceDecoder> decoder;
    InstanceFile instances;
  };

  /// At its instance `number`.
  Reader& open(const BatchFile& file, std::uint64_t number) {
    check_unchanged(file);
    if (!reader_ || reader_->path != file.path) {
      reader_.emplace(Reader{.path = file.path,
                             .decoder = make_instance_decoder(job_, signature_, file.path),
                             .instances = InstanceFile(job_, signature_, file.path)});
    }
    reader_->instances.seek(number, file.marks);
    return *reader_;
  }

  void close() { reader_.reset(); }

 private:
  const BatchJob& job_;
  const SignatureDef& signature_;
  std::optional<Reader> reader_{};
};

/// Waits for the disk in a thread of its own, so that the next batches are computed meanwhile. One
/// save at a time: whoever begins another waits for it.
class Saver {
 public:
  ~Saver() {
    try {
      wait();
    } catch (const std::exception& error) {
      log::error("{}", error.what());
    }
  }

  void begin(std::function<void()> save) {
    wait();
    running_ = std::async(std::launch::async, std::move(save));
  }

  /// Returns when nothing is being saved. Throws what a save failed with, once.
  void wait() {
    if (running_.valid()) running_.get();
  }

 private:
  std::future<void> running_{};
};

using ShardLock = std::shared_ptr<const OpenFile>;

/// One shard while this process has it.
class ShardRun {
 public:
  ShardRun(const Path& output_path, const BatchJob& job, const SignatureDef& signature,
           std::uint64_t shard, const AnswerBatch& answer, const ShardOptions& options,
           const ShardState& saved, OpenInput& input, Saver& saver, ShardLock lock)
      : output_path_(output_path),
        job_(job),
        input_(input),
        saver_(saver),
        shard_(shard),
        options_(options),
        state_(saved),
        files_(std::make_shared<Files>(output_path, shard, saved, std::move(lock))),
        lines_(job, signature),
        answers_(lines_, answer, output_path, shard) {}

  /// False when it was stopped. The last save may still be under way, and with it what publishes
  /// the shard.
  bool run() {
    if (state_.records == 0 && !lines_.header().empty()) files_->results.add_line(lines_.header());
    std::uint64_t file_begin = 0;
    const std::uint64_t end = job_.first_record(shard_ + 1);
    for (const BatchFile& file : job_.files) {
      const std::uint64_t file_end = file_begin + file.records;
      const std::uint64_t next = job_.first_record(shard_) + state_.records;
      if (next < end && next < file_end && !run_file(file, file_begin, std::min(end, file_end))) {
        save();
        return false;
      }
      file_begin = file_end;
    }
    state_.complete = true;
    save();
    return true;
  }

 private:
  /// Kept until they are saved.
  struct Files {
    Files(const Path& output_path, std::uint64_t shard, const ShardState& saved, ShardLock locked)
        : lock(std::move(locked)),
          results(batch_shard_path(output_path, shard, "results"), saved.result_bytes,
                  saved.result_crc32c),
          errors(batch_shard_path(output_path, shard, "errors"), saved.error_bytes,
                 saved.error_crc32c) {}

    const ShardLock lock;
    PartFile results;
    PartFile errors;
  };

  // The instances of one file up to `end`, batch by batch: no batch has those of two files.
  bool run_file(const BatchFile& file, std::uint64_t file_begin, std::uint64_t end) {
    std::uint64_t next = job_.first_record(shard_) + state_.records;
    OpenInput::Reader& reader = input_.open(file, next - file_begin);
    while (next < end) {
      const std::uint64_t count = std::min(end - next, static_cast<std::uint64_t>(job_.batch_size));
      const bool is_deadly = answers_.are_deadly({.first = next, .count = count});
      run_batch(reader.instances, *reader.decoder, file_begin, {.first = next, .count = count});
      next += count;
      if (options_.on_batch && !options_.on_batch(state_)) return false;
      // What took several processes is not to be done again.
      if (is_deadly || Clock::now() - last_save_ >= options_.save_every) save();
    }
    return true;
  }

  void run_batch(InstanceFile& instances, const InstanceDecoder& decoder, std::uint64_t file_begin,
                 const InstanceGroup& group) {
    std::vector<Slot> slots(group.count);
    std::vector<Slot*> whole;
    for (std::uint64_t i = 0; i < group.count; ++i) {
      Slot& slot = slots[i];
      slot.place = group.first + i;
      slot.number = slot.place - file_begin;
      if (!instances.next(slot.record, slot.error)) {
        throw DataLoss("{}: fewer instances than when the job began", instances.where(slot.number));
      }
      if (slot.error) {
        slot.error = failure_text(kInputsStep, *slot.error);
      } else {
        whole.push_back(&slot);
      }
    }
    lines_of_batch_.clear();
    answers_.run(whole, decoder, lines_of_batch_);
    files_->results.add_lines(lines_of_batch_);
    for (const Slot& slot : slots) {
      if (slot.error) {
        files_->errors.add_line(error_line(instances.where(slot.number), *slot.error));
        ++state_.counts.errors;
      } else {
        ++state_.counts.predictions;
      }
    }
    state_.records += group.count;
  }

  void save() {
    files_->results.flush();
    files_->errors.flush();
    const auto now = Clock::now();
    state_.result_bytes = files_->results.bytes();
    state_.error_bytes = files_->errors.bytes();
    state_.result_crc32c = files_->results.crc32c();
    state_.error_crc32c = files_->errors.crc32c();
    state_.counts.seconds += std::chrono::duration<double>(now - last_save_).count();
    last_save_ = now;
    saver_.begin(
        [files = files_, state = state_, &output_path = output_path_, &job = job_, shard = shard_] {
          // The state is written when what it tells of is on the disk, also after a loss of power.
          files->results.sync();
          files->errors.sync();
          write_state(output_path, shard, state);
          if (state.complete) publish(output_path, job, shard);
        });
  }

  const Path& output_path_;
  const BatchJob& job_;
  OpenInput& input_;
  Saver& saver_;
  const std::uint64_t shard_;
  const ShardOptions& options_;
  ShardState state_;
  const std::shared_ptr<Files> files_;
  LineWriter lines_;
  BatchAnswers answers_;
  std::string lines_of_batch_{};
  Clock::time_point last_save_ = Clock::now();
};

// Where the lines of a shard are: under their name once it is published.
Path place_of(const Path& unpublished, const Path& published) {
  return file_exists(unpublished) ? unpublished : published;
}

bool is_as_saved(const Path& output_path, const BatchJob& job, std::uint64_t shard,
                 const ShardState& saved) {
  const Path results = place_of(batch_shard_path(output_path, shard, "results"),
                                batch_results_path(output_path, job, shard));
  const Path errors = place_of(batch_shard_path(output_path, shard, "errors"),
                               batch_errors_path(output_path, job, shard));
  return crc32c_of(results, saved.result_bytes) == saved.result_crc32c &&
         crc32c_of(errors, saved.error_bytes) == saved.error_crc32c;
}

// What a run may go on from: from the beginning where files are not what was saved.
ShardState usable_state(const Path& output_path, const BatchJob& job, std::uint64_t shard) {
  const auto saved = read_shard_state(output_path, shard);
  if (!saved) return {};
  if (is_as_saved(output_path, job, shard, *saved)) return *saved;
  log::warning(
      "lines of shard {} that were saved are gone or differ; it starts again from its beginning",
      shard);
  return {};
}

void remove_if_there(const Path& path) {
  FileSystem& files = file_system_for(path);
  if (files.status(path)) files.remove(path);
}

}  // namespace

std::optional<ShardState> read_shard_state(const Path& output_path, std::uint64_t shard) {
  const Path path = batch_shard_path(output_path, shard, "json");
  if (!file_exists(path)) return std::nullopt;
  try {
    json value = json::parse(read_file(path, kMostStateBytes));
    const std::uint32_t wanted = parse_crc(value.at("crc32c"));
    value.erase("crc32c");
    if (crc32c(value.dump()) != wanted) throw DataLoss("its checksum differs");
    return ShardState{.records = value.at("records").get<std::uint64_t>(),
                      .result_bytes = value.at("result_bytes").get<std::uint64_t>(),
                      .error_bytes = value.at("error_bytes").get<std::uint64_t>(),
                      .result_crc32c = parse_crc(value.at("result_crc32c")),
                      .error_crc32c = parse_crc(value.at("error_crc32c")),
                      .counts = {.predictions = value.at("predictions").get<std::uint64_t>(),
                                 .errors = value.at("errors").get<std::uint64_t>(),
                                 .seconds = value.at("seconds").get<double>()},
                      .complete = value.at("complete").get<bool>()};
  } catch (const std::exception& error) {
    throw DataLoss("{} is damaged: {}. Remove it, and the shard starts again", path.string(),
                   muster::describe(std::current_exception()).message);
  }
}

void check_published_shards(const Path& output_path, const BatchJob& job) {
  for (std::uint64_t shard = 0; shard < job.shards; ++shard) {
    if (!is_published(output_path, job, shard)) continue;
    const auto saved = read_shard_state(output_path, shard);
    if (is_as_saved(output_path, job, shard, *saved)) continue;
    log::warning(
        "results of shard {} are not those that were written; it starts again from its "
        "beginning",
        shard);
    // The state goes first: without it nothing else counts.
    remove_if_there(batch_shard_path(output_path, shard, "json"));
    remove_if_there(batch_results_path(output_path, job, shard));
    remove_if_there(batch_errors_path(output_path, job, shard));
  }
}

std::vector<WrittenFile> files_of_shards(const Path& output_path, const BatchJob& job) {
  std::vector<WrittenFile> files;
  for (std::uint64_t shard = 0; shard < job.shards; ++shard) {
    const auto state = read_shard_state(output_path, shard);
    if (!state) throw Internal("shard {} has no state, though it is published", shard);
    const auto name = [](const Path& path) { return path.filename().string(); };
    files.push_back({.name = name(batch_results_path(output_path, job, shard)),
                     .bytes = state->result_bytes,
                     .crc32c = state->result_crc32c});
    files.push_back({.name = name(batch_errors_path(output_path, job, shard)),
                     .bytes = state->error_bytes,
                     .crc32c = state->error_crc32c});
  }
  return files;
}

bool is_published(const Path& output_path, const BatchJob& job, std::uint64_t shard) {
  const auto state = read_shard_state(output_path, shard);
  return state && state->complete && file_exists(batch_errors_path(output_path, job, shard)) &&
         file_exists(batch_results_path(output_path, job, shard));
}

struct BatchShards::Impl {
  Path output_path;
  const BatchJob& job;
  const SignatureDef& signature;
  AnswerBatch answer;
  OpenInput input{job, signature};
  // Behind what a save refers to.
  Saver saver{};
};

BatchShards::BatchShards(const Path& output_path, const BatchJob& job,
                         const SignatureDef& signature, AnswerBatch answer)
    : impl_(new Impl{output_path, job, signature, std::move(answer)}) {}
BatchShards::~BatchShards() = default;

ShardOutcome BatchShards::run(std::uint64_t shard, const ShardOptions& options) {
  const Path& output_path = impl_->output_path;
  // Given back by the system when the process ends, however it does.
  auto lock = std::make_shared<const OpenFile>(batch_shard_path(output_path, shard, "lock"),
                                               O_RDWR | O_CREAT);
  if (::flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return ShardOutcome::kTakenByAnother;
    throw_errno(errno, "locking " + lock->path().string());
  }
  const ShardState saved = usable_state(output_path, impl_->job, shard);
  if (saved.complete) {
    publish(output_path, impl_->job, shard);
    return ShardOutcome::kPublished;
  }
  try {
    ShardRun run(output_path, impl_->job, impl_->signature, shard, impl_->answer, options, saved,
                 impl_->input, impl_->saver, std::move(lock));
    if (run.run()) return ShardOutcome::kPublished;
  } catch (...) {
    impl_->input.close();
    throw;
  }
  finish();
  return ShardOutcome::kStopped;
}

void BatchShards::finish() { impl_->saver.wait(); }

}  // namespace muster::serving
