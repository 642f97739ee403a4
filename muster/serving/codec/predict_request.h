#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "muster/serving/codec/instances.h"

namespace muster::serving {

/// The body of TensorFlow Serving's REST call :predict: {"instances": [...]}, one value a row, or
/// {"inputs": ...}, whole tensors; "signature_name" may stand beside it. The texts of errors are
/// TensorFlow Serving's.
class PredictRequest {
 public:
  /// Throws InvalidArgument.
  static PredictRequest from_json(std::string_view text);
  ~PredictRequest();
  PredictRequest(PredictRequest&&) noexcept;
  PredictRequest& operator=(PredictRequest&&) noexcept;

  /// serving_default when the request names none.
  const std::string& signature_name() const;
  /// Whether it has the row form, {"instances": ...}; the answer has it too then.
  bool is_row_form() const;

  /// Throws InvalidArgument for values that do not fit, Unimplemented for types that JSON cannot
  /// hold.
  Tensors tensors(const graph::SignatureDef& signature) const;

 private:
  struct Impl;
  explicit PredictRequest(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The answer to such a request: {"predictions": [...]}, or {"outputs": ...}. Throws
/// InvalidArgument for outputs that have no rows where rows are asked for.
std::string predict_answer(const Tensors& outputs, bool row_form);

/// {"error": text}, as TensorFlow Serving lays it out.
std::string error_answer(std::string_view text);

/// A number with the fewest digits that read back as the same one, a string in double quotes, a
/// list in brackets: a tensor as JSON on one line. `as_bytes` writes strings as {"b64": "..."}.
/// Throws InvalidArgument for strings that are no UTF-8, and types that JSON cannot hold.
std::string tensor_json(const graph::TensorValue& tensor, bool as_bytes);

/// Text in double quotes. Throws InvalidArgument for what is no UTF-8.
std::string json_string(std::string_view text);

/// The same; bytes that are no UTF-8 become U+FFFD. For texts of errors.
std::string json_string_lossy(std::string_view text);

}  // namespace muster::serving
