#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/instances.h"

namespace muster::serving {

/// The body of a request to :predict, read by simdjson: the common case, fast. It has no errors:
/// for what it does not take, wrong requests among it, ask PredictRequest's other reader, which
/// knows what to say.
class FastRequest {
 public:
  static std::optional<FastRequest> parse(std::string_view text);
  ~FastRequest();
  FastRequest(FastRequest&&) noexcept;
  FastRequest& operator=(FastRequest&&) noexcept;

  const std::string& signature_name() const;
  bool is_row_form() const;
  std::optional<Tensors> tensors(const graph::SignatureDef& signature) const;
  /// The same for the row form; the field `key_field` of each instance, as JSON, goes to `keys`,
  /// and is an input only if the signature has it. An empty name is no field.
  std::optional<Tensors> tensors(const graph::SignatureDef& signature, std::string_view key_field,
                                 std::vector<std::string>& keys) const;
  /// What was parsed.
  std::string_view text() const;

 private:
  struct Impl;
  explicit FastRequest(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
