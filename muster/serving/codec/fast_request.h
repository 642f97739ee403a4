#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/codec/instances.h"

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
  /// The text that was parsed.
  std::string_view text() const;

 private:
  struct Impl;
  explicit FastRequest(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Instances that were read, and what stands for each.
struct FastRows {
  Tensors inputs{};
  /// JSON, one per instance; none without a key field.
  std::vector<std::string> keys{};
};

/// The same for instances without a request around them, one on each line. The field `key_field` of
/// each goes to the keys, and is an input only if the signature has it; an empty name is no field.
std::optional<FastRows> fast_rows(std::span<const std::string_view> lines,
                                  const graph::SignatureDef& signature, std::string_view key_field);

}  // namespace muster::serving
