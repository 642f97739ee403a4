#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// Whose log it is. One of another run, task or model is of no use to a task.
struct StepLogIdentity {
  std::string run{};
  std::string task{};
  /// A digest of the variables, their slots, how they are dealt to the tasks, and what computes.
  std::string model{};
  std::int64_t replicas = 0;

  bool operator==(const StepLogIdentity&) const = default;
};

/// One record of the log that a ps task keeps: it begins with all values, and then has two records
/// for each step.
struct StepLogRecord {
  enum class Kind {
    /// The first: the values of this step, in the body.
    kBase = 1,
    /// The gradients of the step after this one are added up, in the body. The one before a
    /// kCommitted counts: others were of attempts that came to nothing.
    kPrepared,
    /// That step is made.
    kCommitted,
    /// The run is over and saved elsewhere: no run resumes from this log.
    kEnded,
  };
  /// The replicas [first, last) came from this task.
  struct Push {
    std::string task{};
    std::int64_t first = 0;
    std::int64_t last = 0;

    bool operator==(const Push&) const = default;
  };

  Kind kind = Kind::kBase;
  /// Updates made before, and batches skipped before.
  std::int64_t step = 0;
  std::int64_t skipped_batches = 0;
  /// Identity of the log, in a base.
  StepLogIdentity identity{};
  /// Pushes of a prepared step.
  std::vector<Push> pushes{};
  /// Whether a committed step updated nothing.
  bool is_left_out = false;
  /// By which all tasks decided about a committed step; of a base, those of the step before.
  std::vector<double> squares{};
  /// Details that only the task itself reads.
  std::string detail{};
};

/// Pieces of memory that are written one after the other.
using StepLogBody = std::span<const std::span<const std::byte>>;

/// Reads one log from front to back, and holds it to the order in which records may come.
class StepLogReader {
 public:
  /// Throws NotFound.
  explicit StepLogReader(const Path& file);
  /// Over bytes that outlive it; `name` stands for the file.
  StepLogReader(std::string_view bytes, const std::string& name);
  ~StepLogReader();

  /// The next record; its body, valid until the next call, is in `body`. Nothing at the end, and
  /// where the file ends inside a record, as after a kill. Throws DataLoss, naming file and offset,
  /// for anything else that is not as it was written.
  std::optional<StepLogRecord> next(std::string_view& body);
  /// After next() gave nothing: where the last whole record ends, if there is more.
  std::optional<std::uint64_t> torn_at() const;
  /// Offset of the record that next() looks at.
  std::uint64_t offset() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct StepLogOptions {
  /// A log is due to restart when its steps take more than this, and more than twice its base.
  std::uint64_t most_bytes = std::uint64_t{64} << 20;
};

/// The log of one task in a folder of its own, `<number>.log`; the largest number counts. Writes
/// reach the kernel before a call returns, so they outlive the process, not the machine. Belongs to
/// one thread.
class StepLog {
 public:
  using Visitor = std::function<void(const StepLogRecord&, std::string_view body)>;

  /// Makes the folder. Throws InvalidArgument where it is on no local disk.
  explicit StepLog(const Path& folder, StepLogOptions options = {});
  ~StepLog();

  /// Visits the records of the log that is there, cuts off what a kill left half written, and goes
  /// on after it. False, with nothing visited, where there is none, or one of another identity or
  /// of a run that has ended; a line in the log says which. Throws DataLoss.
  bool recover(const StepLogIdentity& identity, const Visitor& visit);
  /// Begins a log with this base, in one step; the one before is removed. When it throws
  /// (ResourceExhausted for a full disk), the one before is as it was.
  void begin(const StepLogRecord& base, StepLogBody body);
  /// Throws ResourceExhausted for a full disk: what was there before is whole, and no more can be
  /// appended.
  void append(const StepLogRecord& record, StepLogBody body = {});

  /// Whether there is one to append to.
  bool is_open() const;
  bool is_due() const;
  const Path& folder() const;
  /// Identity of the log that is open.
  const StepLogIdentity& identity() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The logs in a folder, the newest last.
std::vector<Path> list_step_logs(const Path& folder);

/// Name of the run whose chief keeps its checkpoints in this folder, in the logs of its ps tasks:
/// MODEL_DIR/ps_log/run, made when it is not there.
std::string step_log_run(const Path& model_dir);

}  // namespace muster
