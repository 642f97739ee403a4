#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

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
  /// What was parsed.
  std::string_view text() const;

 private:
  struct Impl;
  explicit FastRequest(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
