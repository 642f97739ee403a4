#include "muster/train/engine/trainer.h"

#include "muster/base/error.h"
#include "muster/train/engine/gradient_run.h"
#include "muster/train/engine/train_session.h"

namespace muster {

struct Trainer::Impl {
  Impl(const EstimatorOptions& options, const RunConfig& config, const InputFn& input_fn,
       const TrainOptions& train_options, const HooksOfRun& hooks)
      : session(config, train_options, hooks,
                [this, options, input_fn](const RunContext& context) -> std::unique_ptr<TrainRun> {
                  auto made = make_gradient_run(options, context, input_fn);
                  run = made.get();
                  return made;
                }) {}

  /// The session's; null before it begins.
  GradientRun* run = nullptr;
  TrainSession session;
};

Trainer::Trainer(const EstimatorOptions& options, const RunConfig& config, const InputFn& input_fn,
                 const TrainOptions& train_options, const HooksOfRun& hooks)
    : impl_(std::make_unique<Impl>(options, config, input_fn, train_options, hooks)) {}
Trainer::~Trainer() = default;

void Trainer::begin() { impl_->session.begin(); }
bool Trainer::step() { return impl_->session.step(); }
bool Trainer::is_over() const { return impl_->session.is_over(); }
TrainResult Trainer::finish() { return impl_->session.finish(); }
Session& Trainer::session() { return impl_->session; }
const Session& Trainer::session() const { return impl_->session; }

std::shared_ptr<Model> Trainer::current_model() {
  if (impl_->run == nullptr) throw Internal("the model of a run is asked for before it begins");
  return impl_->run->current_model();
}

}  // namespace muster
