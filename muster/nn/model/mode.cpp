#include "muster/nn/model/mode.h"

namespace muster {

std::string_view name_of(Mode mode) {
  switch (mode) {
    case Mode::kTrain:
      return "train";
    case Mode::kEval:
      return "eval";
    case Mode::kPredict:
      return "infer";
  }
  return "unknown";
}

}  // namespace muster
