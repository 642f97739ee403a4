#include <fmt/ranges.h>

#include <functional>
#include <numeric>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/column_batch.h"

namespace muster {
namespace internal {
namespace {

std::int64_t width_of(const std::string& key, const NumericColumnOptions& options) {
  for (const auto size : options.shape) {
    if (size < 1) {
      throw InvalidArgument("numeric_column \"{}\": every dimension must be positive: [{}]", key,
                            fmt::join(options.shape, ", "));
    }
  }
  const auto width = std::accumulate(options.shape.begin(), options.shape.end(), std::int64_t{1},
                                     std::multiplies<>());
  const auto defaults = static_cast<std::int64_t>(options.default_value.size());
  if (defaults > 1 && defaults != width) {
    throw InvalidArgument(
        "numeric_column \"{}\": default_value has {} numbers, but the shape [{}] has {}: give one, "
        "or one for each",
        key, defaults, fmt::join(options.shape, ", "), width);
  }
  return width;
}

// [rows] counts as [rows, 1].
at::Tensor with_columns(const at::Tensor& tensor) {
  return tensor.dim() == 1 ? tensor.unsqueeze(1) : tensor;
}

}  // namespace

NumericColumn::NumericColumn(std::string key, NumericColumnOptions options)
    : Column(require_key(std::move(key), "numeric_column")),
      options_(std::move(options)),
      width_(width_of(name(), options_)) {}

FeatureSpecs NumericColumn::parse_specs() const {
  FixedLen spec{.kind = FeatureKind::kFloat, .shape = options_.shape};
  if (!options_.default_value.empty()) spec.default_value = options_.default_value;
  return {{key(), std::move(spec)}};
}

at::Tensor NumericColumn::compute_numbers(ColumnBatch& batch) const {
  const FeatureValue& value = batch.raw(key(), *this);
  const auto* raw = std::get_if<at::Tensor>(&value);
  if (!raw) {
    throw InvalidArgument(
        "column \"{}\" reads numbers, the same count in every row, but the feature \"{}\" is {}",
        name(), key(), describe(value));
  }
  const auto rows = batch.rows();
  if (raw->numel() != rows * width_) {
    throw InvalidArgument("column \"{}\" has shape [{}], but the feature \"{}\" is {}", name(),
                          fmt::join(options_.shape, ", "), key(), describe(value));
  }
  if (!options_.normalizer) return raw->is_cpu() ? raw->contiguous() : raw->cpu().contiguous();
  const at::Tensor normalized = options_.normalizer(with_columns(*raw));
  if (!normalized.defined() || normalized.numel() != rows * width_) {
    throw InvalidArgument(
        "column \"{}\": the normalizer must keep the shape of its input, {}, but gave {}", name(),
        describe(with_columns(*raw)),
        normalized.defined() ? describe(FeatureValue(normalized)) : "nothing");
  }
  return normalized.detach().to(at::kCPU).contiguous();
}

void NumericColumn::fill(ColumnBatch& batch, float* out, std::int64_t stride) const {
  with_numbers(batch.numbers(*this), [&](const auto* numbers) {
    const auto rows = batch.rows();
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < width_; ++i) {
        out[row * stride + i] = static_cast<float>(numbers[row * width_ + i]);
      }
    }
  });
}

}  // namespace internal

FeatureColumn numeric_column(std::string key, NumericColumnOptions options) {
  return internal::make_column<internal::NumericColumn>(std::move(key), std::move(options));
}

}  // namespace muster
