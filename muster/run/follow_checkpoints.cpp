#include "muster/run/distributed_session.h"

#include <torch/types.h>

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/checkpoint_store.h"
#include "muster/nn/model/module_variables.h"
#include "muster/run/checkpoint_follower_internal.h"
#include "muster/run/evaluator_task_internal.h"
#include "muster/run/hand_written_internal.h"
#include "muster/train/engine/tensor_codec.h"

namespace muster {
namespace {

class FunctionUse : public internal::CheckpointUse {
 public:
  using Clock = internal::CheckpointFollower::Clock;

  FunctionUse(const std::function<bool(const Path&)>& evaluate, std::chrono::seconds throttle)
      : evaluate_(evaluate), throttle_(throttle) {}

  bool is_due(std::int64_t) const override {
    return !last_start_ || Clock::now() - *last_start_ >= throttle_;
  }
  void log_not_due(std::int64_t step) const override {
    log::info("step {} is not evaluated yet: throttle_secs are {}", step, throttle_.count());
  }
  void evaluate(const Path& checkpoint, bool) override {
    if (checkpoint == evaluated_) return;
    last_start_ = Clock::now();
    goes_on_ = evaluate_(checkpoint);
    evaluated_ = checkpoint;
  }
  bool goes_on() const { return goes_on_; }

 private:
  const std::function<bool(const Path&)>& evaluate_;
  const std::chrono::seconds throttle_;
  std::optional<Clock::time_point> last_start_;
  Path evaluated_;
  bool goes_on_ = true;
};

}  // namespace

void follow_checkpoints(const RunConfig& config, const FollowCheckpointsOptions& options,
                        const std::function<bool(const Path& checkpoint)>& evaluate) {
  if (!evaluate) throw InvalidArgument("follow_checkpoints: the function is not set");
  if (config.model_dir.empty()) {
    throw InvalidArgument("follow_checkpoints: model_dir is not set: name the training's folder");
  }
  if (options.last_step && *options.last_step <= 0) {
    throw InvalidArgument("follow_checkpoints: last_step must be positive, or not set: {}",
                          *options.last_step);
  }
  FunctionUse use(evaluate, options.throttle_secs);
  internal::follow_training(
      config, use, {.max_steps = options.last_step, .goes_on = [&use] { return use.goes_on(); }});
}

void load_checkpoint(const Path& checkpoint, const std::shared_ptr<torch::nn::Module>& module) {
  if (module == nullptr) throw InvalidArgument("load_checkpoint: there is no module");
  const torch::NoGradGuard no_grad;
  std::vector<ModuleVariable> variables = variables_of(*module);
  std::vector<NamedTensor> targets;
  for (ModuleVariable& variable : variables) {
    variable.name = fmt::format("{}/{}", internal::kHandWrittenModel, variable.name);
    targets.push_back({variable.name, variable.tensor});
  }
  restore_from(BundleReader(checkpoint), targets, CheckpointLayouts(variables));
}

Path save_checkpoint(const Path& model_dir, std::int64_t step,
                     const std::vector<NamedTensor>& state) {
  if (step < 0) throw InvalidArgument("save_checkpoint: step must not be negative: {}", step);
  std::vector<NamedTensor> tensors = state;
  tensors.push_back({"global_step", torch::full({}, step, torch::kLong)});
  std::set<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw InvalidArgument("save_checkpoint: two tensors are called '{}'", tensor.name);
    }
  }
  const EncodedTensors encoded = encode(tensors, CheckpointLayouts({}));
  return CheckpointStore(model_dir).save(step, encoded.views);
}

std::optional<std::int64_t> restore_checkpoint(const Path& model_dir,
                                               const std::vector<NamedTensor>& state) {
  const auto checkpoint = restore_latest(model_dir);
  if (!checkpoint) return std::nullopt;
  const torch::NoGradGuard no_grad;
  restore_from(checkpoint->bundle, state, CheckpointLayouts({}));
  return decode(checkpoint->bundle, "global_step").item<std::int64_t>();
}

}  // namespace muster
