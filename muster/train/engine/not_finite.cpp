#include "muster/train/engine/not_finite.h"

#include <fmt/core.h>
#include <torch/types.h>

#include <variant>

namespace muster {
namespace {

struct BadNumber {
  std::int64_t row = 0;
  double value = 0;
};

std::optional<std::int64_t> first_bad_place(const at::Tensor& values) {
  if (!values.defined() || !values.is_floating_point()) return std::nullopt;
  const at::Tensor bad = values.reshape({-1}).isfinite().logical_not().nonzero();
  if (bad.numel() == 0) return std::nullopt;
  return bad[0].item<std::int64_t>();
}

std::optional<BadNumber> first_bad(const at::Tensor& tensor) {
  const auto place = first_bad_place(tensor);
  if (!place) return std::nullopt;
  const std::int64_t in_a_row = tensor.dim() == 0 ? 1 : tensor.numel() / tensor.size(0);
  return BadNumber{*place / in_a_row, tensor.reshape({-1})[*place].item<double>()};
}

// The row that a value of a ragged column belongs to.
std::int64_t row_of(const RaggedColumn& column, std::int64_t place) {
  return column.row_splits.le(place).sum().item<std::int64_t>() - 1;
}

std::optional<BadNumber> first_bad(const RaggedColumn& column) {
  for (const at::Tensor& values : {column.values, column.weights}) {
    if (const auto place = first_bad_place(values)) {
      return BadNumber{row_of(column, *place), values.reshape({-1})[*place].item<double>()};
    }
  }
  return std::nullopt;
}

std::optional<BadNumber> first_bad(const FeatureValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) return first_bad(*tensor);
  if (const auto* ragged = std::get_if<RaggedColumn>(&value)) return first_bad(*ragged);
  return std::nullopt;
}

std::string first_not_finite(const Batch& batch, std::size_t replica) {
  const torch::NoGradGuard no_grad;
  for (const auto& [kind, columns] :
       {std::pair("feature", &batch.features), std::pair("label", &batch.labels)}) {
    for (const auto& [name, value] : *columns) {
      const auto bad = first_bad(value);
      if (!bad) continue;
      return fmt::format("the {} \"{}\" of replica {} is {} in row {} of its batch{}", kind, name,
                         replica, bad->value, bad->row,
                         batch.row_names ? ", which is " + batch.row_names->of(bad->row) : "");
    }
  }
  return "";
}

}  // namespace

std::string first_not_finite(std::span<const std::optional<Batch>> batches) {
  for (std::size_t replica = 0; replica < batches.size(); ++replica) {
    if (!batches[replica]) continue;
    std::string found = first_not_finite(*batches[replica], replica);
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace muster
