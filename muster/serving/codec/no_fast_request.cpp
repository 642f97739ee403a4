// In place of fast_request.cpp where simdjson is not installed: PredictRequest's other reader takes
// everything.
#include "muster/base/error.h"
#include "muster/serving/codec/fast_request.h"

namespace muster::serving {

struct FastRequest::Impl {};

FastRequest::FastRequest(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FastRequest::~FastRequest() = default;
FastRequest::FastRequest(FastRequest&&) noexcept = default;
FastRequest& FastRequest::operator=(FastRequest&&) noexcept = default;

std::optional<FastRequest> FastRequest::parse(std::string_view) { return std::nullopt; }
const std::string& FastRequest::signature_name() const { throw Internal("there is no simdjson"); }
bool FastRequest::is_row_form() const { throw Internal("there is no simdjson"); }
std::optional<Tensors> FastRequest::tensors(const graph::SignatureDef&) const {
  return std::nullopt;
}
std::string_view FastRequest::text() const { return {}; }

std::optional<FastRows> fast_rows(std::span<const std::string_view>, const graph::SignatureDef&,
                                  std::string_view) {
  return std::nullopt;
}

}  // namespace muster::serving
