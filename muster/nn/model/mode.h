#pragma once

#include <string_view>

namespace muster {

/// Purpose that a model is called for.
enum class Mode { kTrain, kEval, kPredict };

/// "train", "eval", "infer": the words of tf.estimator.
std::string_view name_of(Mode mode);

}  // namespace muster
