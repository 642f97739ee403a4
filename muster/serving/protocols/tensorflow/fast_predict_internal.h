#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/serving/core/model_store.h"

namespace muster::serving {

/// A request to gRPC's Predict, read from its bytes without building messages: the common case,
/// fast. It has no errors: for what it does not take, wrong requests among it, ask protobuf and
/// those who read its messages, which know what to say. Views the bytes.
class FastPredict {
 public:
  static std::optional<FastPredict> parse(std::string_view bytes);

  std::string_view model() const { return model_; }
  const VersionChoice& version() const { return version_; }
  /// Empty when the request names none.
  std::string_view signature_name() const { return signature_name_; }
  /// The outputs that are asked for; all when it is empty.
  const std::vector<std::string_view>& output_filter() const { return output_filter_; }

  /// The same tensors as predict_inputs() gives, or nothing.
  std::optional<Tensors> tensors(const graph::SignatureDef& signature,
                                 std::size_t most_tensor_bytes) const;

 private:
  FastPredict() = default;
  bool read(std::string_view bytes);
  bool read_spec(std::string_view bytes);
  bool read_input(std::string_view bytes);

  std::string_view model_{};
  VersionChoice version_{};
  std::string_view signature_name_{};
  std::vector<std::string_view> output_filter_{};
  // Names and TensorProtos.
  std::vector<std::pair<std::string_view, std::string_view>> inputs_{};
};

/// Writes the bytes of a PredictResponse.
class PredictResponseWriter {
 public:
  /// For an answer of this version and signature. `raw`: tensors as tensor_content.
  PredictResponseWriter(const ModelVersion& version, std::string_view signature, bool raw);

  void add(std::string_view name, const graph::TensorValue& tensor);
  std::string bytes() && { return std::move(out_); }

 private:
  bool raw_;
  std::string out_{};
};

}  // namespace muster::serving
