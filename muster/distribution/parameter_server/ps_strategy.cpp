#include "muster/distribution/parameter_server/ps_strategy_internal.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/train/estimator/estimator.h"

namespace muster::internal {
namespace {

class PsStrategy final : public Strategy {
 public:
  PsStrategy(std::string description, std::unique_ptr<PsMembership> membership,
             std::unique_ptr<PsReduction> reduction)
      : description_(std::move(description)),
        membership_(std::move(membership)),
        reduction_(std::move(reduction)) {
    membership_->on_end_of_generation([this] { reduction_->end_generation(); });
  }

  std::string describe() const override { return description_; }
  void check(const EstimatorOptions& options) const override;
  void attach(Participant& participant) override { membership_->attach(participant); }
  RunMembership& membership() override { return *membership_; }
  GradientReduction& reduction() override { return *reduction_; }

 private:
  const std::string description_;
  const std::unique_ptr<PsMembership> membership_;
  const std::unique_ptr<PsReduction> reduction_;
};

void PsStrategy::check(const EstimatorOptions& options) const {
  if (options.moving_average) {
    throw Unimplemented(
        "moving_average needs the variables in the process; train without ps tasks");
  }
  if (membership_->config().reproducibility.precision == ComputeType::kFloat16) {
    throw Unimplemented(
        "RunConfig: precision float16 needs the variables in the process, where its loss scale is; "
        "train without ps tasks, or with bfloat16");
  }
}

}  // namespace

std::unique_ptr<Strategy> make_ps_strategy(std::string description,
                                           std::unique_ptr<PsMembership> membership,
                                           std::unique_ptr<PsReduction> reduction) {
  return std::make_unique<PsStrategy>(std::move(description), std::move(membership),
                                      std::move(reduction));
}

}  // namespace muster::internal

namespace muster {

std::unique_ptr<Strategy> make_parameter_server(const RunConfig& config,
                                                const ParameterServerOptions& options) {
  if (config.cluster.task.num_ps_replicas == 0) {
    throw InvalidArgument("the cluster {} has no ps task to hold variables",
                          config.cluster.task.cluster.to_string());
  }
  return config.cluster.sync ? internal::make_sync_strategy(config, options)
                             : internal::make_async_strategy(config, options);
}

}  // namespace muster
