#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "muster/base/error.h"

namespace muster::serving {

/// A step of a prediction and how its failure is reported: the numbers and texts are those of Cloud
/// ML Engine, which other programs read.
struct PredictionStep {
  int code;
  const char* message;
};

inline constexpr PredictionStep kLoadStep{0, "Failed to load model"};
inline constexpr PredictionStep kInputsStep{1, "Invalid inputs"};
inline constexpr PredictionStep kRunStep{2, "Failed to run the provided model"};
inline constexpr PredictionStep kOutputsStep{3, "There was a problem processing the outputs"};

/// "Invalid inputs: DETAIL (Error code: 1)".
inline std::string failure_text(const PredictionStep& step, std::string_view detail) {
  return fmt::format("{}: {} (Error code: {})", step.message, detail, step.code);
}

/// Calls `act`; whatever it throws becomes an Error of the same code with the step's text.
template <typename Act>
auto in_step(const PredictionStep& step, Act&& act) {
  try {
    return act();
  } catch (...) {
    const Description failure = muster::describe(std::current_exception());
    throw Error(failure.code, failure_text(step, failure.message));
  }
}

}  // namespace muster::serving
