#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/column_batch.h"

namespace muster {
namespace internal {
namespace {

std::int64_t source_width_of(const std::string& name, const FunctionColumnOptions& options) {
  if (!options.function)
    throw InvalidArgument("function_column \"{}\": there is no function", name);
  if (options.sources.empty()) {
    throw InvalidArgument("function_column \"{}\": there are no source columns", name);
  }
  if (options.width < 0) {
    throw InvalidArgument("function_column \"{}\": the width must not be negative: {}", name,
                          options.width);
  }
  std::int64_t width = 0;
  for (const FeatureColumn& source : options.sources) {
    if (source.is_sequence() || source.internal().numbers() == nullptr) {
      throw InvalidArgument(
          "function_column \"{}\" reads numbers, which the column \"{}\" does not give: make an "
          "indicator_column of a categorical one",
          name, source.name());
    }
    width += source.width();
  }
  return width;
}

}  // namespace

FunctionColumn::FunctionColumn(std::string name, FunctionColumnOptions options)
    : Column(require_key(std::move(name), "function_column")), options_(std::move(options)) {
  source_width_ = source_width_of(this->name(), options_);
  if (options_.width == 0) options_.width = source_width_;
}

void FunctionColumn::fill(ColumnBatch& batch, float* out, std::int64_t stride) const {
  const std::int64_t rows = batch.rows();
  const at::Tensor read = at::zeros({rows, source_width_});
  auto* place = static_cast<float*>(read.data_ptr());
  for (const FeatureColumn& source : options_.sources) {
    source.internal().numbers()->fill(batch, place, source_width_);
    place += source.width();
  }
  const at::Tensor made = options_.function(read);
  if (!made.defined() || made.dim() != 2 || made.size(0) != rows || made.size(1) != width()) {
    throw InvalidArgument(
        "column \"{}\": the function must make [rows, {}] of [rows, {}], but of {} it made {}",
        name(), width(), source_width_, describe(FeatureValue(read)),
        made.defined() ? describe(FeatureValue(made)) : "nothing");
  }
  const at::Tensor numbers = made.detach().to(at::kCPU, at::kFloat).contiguous();
  const auto* from = static_cast<const float*>(numbers.data_ptr());
  for (std::int64_t row = 0; row < rows; ++row) {
    std::copy_n(from + row * width(), width(), out + row * stride);
  }
}

}  // namespace internal

FeatureColumn function_column(std::string name, FunctionColumnOptions options) {
  return internal::make_column<internal::FunctionColumn>(std::move(name), std::move(options));
}

}  // namespace muster
