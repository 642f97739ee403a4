#include "muster/train/estimator/predictor.h"

#include <torch/types.h>

#include <mutex>

#include "muster/base/error.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/nn/device/devices.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/evaluation_model.h"

namespace muster {
namespace {

// As a RunConfig has it by default.
c10::Device prepared(c10::Device device) {
  if (device.is_cuda()) choose_gpu_kernels(/*deterministic=*/true);
  return device;
}

}  // namespace

struct Predictor::Impl {
  Impl(const EstimatorOptions& estimator_options, const Path& checkpoint, const std::string& device)
      : options(estimator_options),
        model(options, 0, prepared(resolve_devices({device})[0])),
        global_step(model.load(resolve_checkpoint(checkpoint))) {}

  EstimatorOptions options;
  EvaluationModel model;
  std::int64_t global_step;
  std::mutex mutex;
};

Predictor::Predictor(const EstimatorOptions& options, const Path& checkpoint,
                     const std::string& device)
    : impl_(std::make_unique<Impl>(options, checkpoint, device)) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

Features Predictor::predict(const Features& features) const {
  const std::lock_guard lock(impl_->mutex);
  const c10::InferenceMode inference;
  return impl_->model.call({.features = features}, Mode::kPredict).predictions;
}

Features Predictor::predict(const Features& features, const std::vector<std::string>& keys) const {
  return select_predictions(predict(features), keys);
}

std::int64_t Predictor::global_step() const { return impl_->global_step; }

Features select_predictions(const Features& predictions, const std::vector<std::string>& keys) {
  Features selected;
  for (const auto& key : keys) {
    const FeatureValue* value = predictions.find(key);
    if (value == nullptr) {
      throw InvalidArgument("predict_keys: the model predicts no '{}'; it predicts {}", key,
                            predictions.names());
    }
    selected.add(key, *value);
  }
  return selected;
}

}  // namespace muster
