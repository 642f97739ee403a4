#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/data/checkpoint/step_log.h"
#include "muster/distribution/parameter_server/ps_layout_internal.h"
#include "muster/distribution/wire/tensors_internal.h"
#include "muster/train/engine/strategy.h"

// How a server's part of a run gets into a log and back.
namespace muster::internal {

/// A step whose gradients are added up, but which is not made: the others may not have theirs.
struct PendingStep {
  Gradients mean{};
  StepResult outcome{};
  InputPositions positions{};
  std::vector<at::Tensor> buffers{};
  /// Whose gradients these are.
  std::vector<StepLogRecord::Push> pushes{};
};

/// All that a server needs of itself to continue: its part of variables and slots, in a fixed
/// order.
std::vector<at::Tensor> held_pieces(const PsLayout& layout, std::size_t server,
                                    const Variables& variables, const Updater& updater);

/// Tells apart what a log can be of: names, types and shapes of variables and slots, how many
/// servers there are, and the rules by which steps are made.
std::string model_digest(const std::vector<NamedTensor>& tensors, std::size_t servers,
                         const std::vector<std::string>& rules);

/// The log of one server. Errors say what to do about them.
class PsLog {
 public:
  /// A run between two steps, beside the pieces.
  struct Base {
    std::int64_t step = 0;
    std::int64_t skipped_batches = 0;
    std::int64_t inputs_from = 0;
    std::string state_json{};
    /// Sums of squares of the step before.
    std::vector<double> squares{};
  };
  /// Told what the log holds, in its order. When `base` is called, the pieces are written.
  struct Replay {
    std::function<void(const Base&)> base;
    std::function<void(PendingStep)> prepared;
    std::function<void(const std::vector<double>& squares, bool is_left_out)> committed;
  };

  /// `pieces` are what held_pieces() gave, for as long as this lives.
  PsLog(const Path& folder, std::uint64_t most_bytes, StepLogIdentity identity,
        std::vector<at::Tensor> pieces);

  /// False where there is no log to resume from. Pending steps are read with `expected`.
  bool recover(const ExpectedTensors& expected, const Replay& replay);
  void begin(const Base& base);
  void prepared(std::int64_t step, std::int64_t skipped_batches, const PendingStep& pending);
  void committed(std::int64_t step, std::int64_t skipped_batches,
                 const std::vector<double>& squares, bool is_left_out);
  void ended(std::int64_t step, std::int64_t skipped_batches);

  bool is_open() const { return log_.is_open(); }
  bool is_due() const { return log_.is_due(); }
  const std::string& run() const { return identity_.run; }
  const Path& folder() const { return log_.folder(); }

 private:
  void append(const StepLogRecord& record, StepLogBody body = {});
  void load(std::string_view body) const;

  StepLog log_;
  StepLogIdentity identity_;
  std::vector<at::Tensor> pieces_;
};

}  // namespace muster::internal
