#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/library.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "muster/base/error.h"
#include "muster/nn/model/column_ids_internal.h"

namespace muster::internal {
namespace {

bool at_most_one_a_row(const IdsView& ids) {
  for (std::size_t row = 0; row < ids.rows; ++row) {
    if (ids.splits[row + 1] - ids.splits[row] > 1) return false;
  }
  return true;
}

// The sum of a mean divides by; of the weights, which are not negative here, or their squares.
float denominator_of(const float* weights, std::int64_t count, Combiner combiner) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float weight = weights == nullptr ? 1.0F : weights[i];
    if (weight > 0) sum += combiner == Combiner::kMean ? weight : weight * weight;
  }
  return combiner == Combiner::kMean ? sum : std::sqrt(sum);
}

std::vector<float> factors_of(const IdsView& ids, const at::Tensor& weight_tensor,
                              Combiner combiner) {
  const bool weighted = weight_tensor.defined();
  if (!weighted && (combiner == Combiner::kSum || at_most_one_a_row(ids))) return {};
  const float* weights = weighted ? weight_tensor.data_ptr<float>() : nullptr;
  std::vector<float> factors(ids.count(), 1.0F);
  if (weighted) std::copy_n(weights, factors.size(), factors.begin());
  if (combiner == Combiner::kSum) return factors;
  for (std::size_t row = 0; row < ids.rows; ++row) {
    const auto first = ids.splits[row];
    const auto count = ids.splits[row + 1] - first;
    const float denominator = denominator_of(weighted ? weights + first : nullptr, count, combiner);
    for (auto i = first; i < first + count; ++i) {
      float& factor = factors[static_cast<std::size_t>(i)];
      factor = factor > 0 ? factor / denominator : 0.0F;
    }
  }
  return factors;
}

// The number of the row that each id belongs to.
at::Tensor row_numbers(const RaggedColumn& ids) {
  const auto lengths = ids.row_splits.slice(0, 1) - ids.row_splits.slice(0, 0, -1);
  return at::repeat_interleave(lengths.to(ids.values.device()));
}

at::Tensor factor_tensor(const RaggedColumn& ids, Combiner combiner, const at::Tensor& numbers,
                         const at::Tensor& out) {
  if (combiner == Combiner::kSum) return ids.weights;
  const auto weights = ids.weights.defined()
                           ? ids.weights.clamp_min(0)
                           : torch::ones_like(ids.values, out.options().requires_grad(false));
  const auto terms = combiner == Combiner::kMean ? weights : weights * weights;
  auto sums = torch::zeros_like(out.select(1, 0), terms.options()).index_add(0, numbers, terms);
  if (combiner == Combiner::kSqrtN) sums = sums.sqrt();
  // A row whose weights are all 0 has 0 above and below.
  return weights / sums.clamp_min(std::numeric_limits<float>::min()).index_select(0, numbers);
}

constexpr const char* kCombinerNames[] = {"mean", "sqrtn", "sum"};

Combiner combiner_named(const std::string& name) {
  for (const Combiner combiner : {Combiner::kMean, Combiner::kSqrtN, Combiner::kSum}) {
    if (name == kCombinerNames[static_cast<int>(combiner)]) return combiner;
  }
  throw InvalidArgument("muster::lookup: there is no combiner '{}'", name);
}

// Takes its arguments from the stack and leaves the result there: so the same lines do for every
// libtorch, whose types of optional values differ.
void lookup_on_stack(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const std::size_t first = stack->size() - 6;
  const auto argument = [&](std::size_t index) -> const c10::IValue& {
    return (*stack)[first + index];
  };
  const at::Tensor table = argument(0).toTensor();
  const RaggedColumn ids{.values = argument(1).toTensor(),
                         .row_splits = argument(2).toTensor(),
                         .weights = argument(3).isNone() ? at::Tensor() : argument(3).toTensor()};
  const Combiner combiner = combiner_named(argument(4).toStringRef());
  at::Tensor rows = table_rows(table, ids);
  if (!argument(5).isNone()) rows = with_limited_norms(rows, argument(5).toDouble());
  at::Tensor result = add_by_row(zero_rows(ids, table.size(1), table), ids, combiner, rows);
  stack->resize(first);
  stack->emplace_back(std::move(result));
}

TORCH_LIBRARY_FRAGMENT(muster, library) {
  library.def(
      "lookup(Tensor table, Tensor ids, Tensor row_splits, Tensor? weights, str combiner, "
      "float? max_norm) -> Tensor",
      torch::CppFunction::makeFromBoxedFunction<&lookup_on_stack>());
}

}  // namespace

at::Tensor with_limited_norms(const at::Tensor& rows, double max_norm) {
  const auto norms = rows.norm(2, {1}, /*keepdim=*/true);
  return rows * (max_norm / norms.clamp_min(max_norm));
}

at::Tensor lookup(const at::Tensor& table, const RaggedColumn& ids, Combiner combiner,
                  std::optional<double> max_norm) {
  static const auto operation =
      c10::Dispatcher::singleton().findSchemaOrThrow("muster::lookup", "");
  torch::jit::Stack stack{table, ids.values, ids.row_splits};
  stack.emplace_back(ids.weights.defined() ? c10::IValue(ids.weights) : c10::IValue());
  stack.emplace_back(std::string(kCombinerNames[static_cast<int>(combiner)]));
  stack.emplace_back(max_norm ? c10::IValue(*max_norm) : c10::IValue());
  operation.callBoxed(stack);
  return stack.back().toTensor();
}

IdsView TableIds::view() const {
  return {.ids = ids.values.data_ptr<std::int64_t>(),
          .splits = ids.row_splits.data_ptr<std::int64_t>(),
          .factors = factors.empty() ? nullptr : factors.data(),
          .rows = static_cast<std::size_t>(ids.row_splits.numel() - 1)};
}

TableIds column_ids(const RaggedColumn& ids, Combiner combiner, std::int64_t row_count,
                    std::string_view column) {
  TableIds result{
      .ids = {.values = ids.values.contiguous(),
              .row_splits = ids.row_splits.contiguous(),
              .weights = ids.weights.defined() ? ids.weights.contiguous() : at::Tensor()}};
  const IdsView view = result.view();
  const std::size_t outside = find_outside(view, row_count);
  if (outside != view.count()) {
    throw OutOfRange("column {}: id {} is not in [0, {})", column, view.ids[outside], row_count);
  }
  result.factors = factors_of(view, result.ids.weights, combiner);
  return result;
}

at::Tensor zero_rows(const FeatureValue& piece, std::int64_t width, const at::Tensor& like) {
  const auto* ids = std::get_if<RaggedColumn>(&piece);
  const at::Tensor one_a_row =
      ids != nullptr ? ids->row_splits.slice(0, 1) : std::get<at::Tensor>(piece).select(1, 0);
  const auto options = like.options().requires_grad(false);
  return torch::zeros_like(one_a_row, options).unsqueeze(1) * torch::zeros({1, width}, options);
}

at::Tensor add_by_row(const at::Tensor& out, const RaggedColumn& ids, Combiner combiner,
                      const at::Tensor& table_rows) {
  const auto numbers = row_numbers(ids);
  const auto factors = factor_tensor(ids, combiner, numbers, out);
  return out.index_add(0, numbers,
                       factors.defined() ? table_rows * factors.unsqueeze(1) : table_rows);
}

at::Tensor table_rows(const at::Tensor& table, const RaggedColumn& ids) {
  if (!at::GradMode::is_enabled() || !table.requires_grad()) {
    return table.index_select(0, ids.values);
  }
  return at::embedding(table, ids.values, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false,
                       /*sparse=*/true);
}

bool is_tracing() { return torch::jit::tracer::isTracing(); }

bool needs_tensor_operations(const at::Tensor& parameter) {
  return !parameter.is_cpu() || is_tracing();
}

}  // namespace muster::internal
