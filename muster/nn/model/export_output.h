#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

/// The signature that a client gets who asks for none.
inline constexpr const char* kServingDefault = "serving_default";

enum class SignatureKind { kClassify, kRegress, kPredict };

/// "tensorflow/serving/classify" and its siblings.
std::string_view method_name_of(SignatureKind kind);

/// One signature of an export: which predictions it gives out, and under what names.
struct ExportOutput {
  std::string name{};
  SignatureKind kind = SignatureKind::kPredict;
  /// Output key and the prediction behind it: {"scores", "probabilities"}.
  std::vector<std::pair<std::string, std::string>> outputs{};
  /// Only of kClassify: the output `classes`, the same for every row. May be empty.
  std::vector<std::string> classes{};
};

/// Makes sure there is one serving_default: without outputs a predict signature of `predictions`,
/// a single output under another name once more as serving_default. Throws InvalidArgument for
/// several without serving_default, a name that occurs twice, or a prediction that is not there.
std::vector<ExportOutput> with_serving_default(std::vector<ExportOutput> outputs,
                                               const std::vector<std::string>& predictions);

}  // namespace muster
