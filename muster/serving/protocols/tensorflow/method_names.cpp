#include "muster/base/error.h"
#include "muster/serving/protocols/tensorflow/method_names_internal.h"

namespace muster::serving {
namespace {

using graph::kClassifyMethod;
using graph::kPredictMethod;
using graph::kRegressMethod;

void check_method(const graph::SignatureDef& signature, const char* kind, std::string_view wanted) {
  if (signature.method_name == wanted) return;
  throw InvalidArgument("Expected {} signature method_name to be {}. Was: {}", kind, wanted,
                        signature.method_name);
}

}  // namespace

void check_predict_method(const graph::SignatureDef& signature) {
  for (const std::string_view known : {kPredictMethod, kClassifyMethod, kRegressMethod}) {
    if (signature.method_name == known) return;
  }
  throw Internal("Expected prediction signature method_name to be one of {{{}, {}, {}}}. Was: {}",
                 kPredictMethod, kClassifyMethod, kRegressMethod, signature.method_name);
}

void check_classify_method(const graph::SignatureDef& signature) {
  check_method(signature, "classification", kClassifyMethod);
}

void check_regress_method(const graph::SignatureDef& signature) {
  check_method(signature, "regression", kRegressMethod);
}

}  // namespace muster::serving
