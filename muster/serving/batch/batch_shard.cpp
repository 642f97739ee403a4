#include "muster/serving/batch/batch_shard.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/open_file.h"
#include "muster/serving/batch/batch_answers_internal.h"
#include "muster/serving/batch/batch_instances_internal.h"
#include "muster/serving/batch/part_file_internal.h"
#include "muster/serving/batch/prediction_lines_internal.h"
#include "muster/serving/batch/prediction_step.h"
#include "muster/serving/batch/shard_state_internal.h"

namespace muster::serving {
namespace {

using graph::SignatureDef;
using Clock = std::chrono::steady_clock;

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
/// up to the first one of a shard, and the next shard of a worker begins after the last one.
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
/// save at a time: beginning another waits for it.
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
      // A batch that has killed processes is not to be done again.
      if (is_deadly || Clock::now() - last_save_ >= options_.save_every) save();
    }
    return true;
  }

  void run_batch(InstanceFile& instances, const InstanceDecoder& decoder, std::uint64_t file_begin,
                 const InstanceGroup& group) {
    std::vector<InstanceSlot> slots(group.count);
    std::vector<InstanceSlot*> whole;
    for (std::uint64_t i = 0; i < group.count; ++i) {
      InstanceSlot& slot = slots[i];
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
    for (const InstanceSlot& slot : slots) {
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
          write_shard_state(output_path, shard, state);
          if (state.complete) publish_shard(output_path, job, shard);
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

}  // namespace

struct BatchShards::Impl {
  Path output_path;
  const BatchJob& job;
  const SignatureDef& signature;
  AnswerBatch answer;
  OpenInput input{job, signature};
  // After what a save refers to.
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
  const ShardState saved = resumable_shard_state(output_path, impl_->job, shard);
  if (saved.complete) {
    publish_shard(output_path, impl_->job, shard);
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
