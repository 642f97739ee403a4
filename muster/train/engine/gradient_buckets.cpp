#include "muster/train/engine/gradient_buckets.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

using torch::autograd::variable_list;

}  // namespace

std::vector<FlatRange> gradient_buckets(const Variables& variables) {
  constexpr std::int64_t kMost = 8;
  const std::int64_t least = std::max(kLeastGradientPiece, variables.flat().numel() / kMost);
  std::vector<FlatRange> pieces;
  std::int64_t last = variables.flat().numel();
  const auto all = variables.all();
  for (auto variable = all.rbegin(); variable != all.rend(); ++variable) {
    if (!variable->dense() || last - variable->offset < least) continue;
    pieces.push_back({variable->offset, last});
    last = variable->offset;
  }
  if (last > 0) pieces.push_back({0, last});
  return pieces;
}

/// Hook of the node that adds to a parameter's gradient.
class GradientBuckets::Hook final : public torch::autograd::FunctionPostHook {
 public:
  Hook(GradientBuckets& pieces, at::Tensor parameter)
      : pieces_(pieces), parameter_(std::move(parameter)) {}

  variable_list operator()(const variable_list& outputs, const variable_list& gradients) override {
    if (!gradients.empty() && gradients[0].defined()) pieces_.added_gradient(parameter_);
    return outputs;
  }

 private:
  GradientBuckets& pieces_;
  at::Tensor parameter_;
};

GradientBuckets::GradientBuckets(const Variables& variables, AttachedModule& module,
                                 c10::Device device)
    : module_(module) {
  const std::vector<FlatRange> ranges = gradient_buckets(variables);
  for (std::size_t i = 0; i < ranges.size(); ++i) marks_.emplace_back(device);
  pieces_.resize(ranges.size());
  for (const at::Tensor& parameter : module.dense_parameters()) {
    const std::int64_t offset =
        parameter.grad().storage_offset() - module.gradients().flat.storage_offset();
    const auto range =
        std::ranges::find_if(ranges, [&](const FlatRange& one) { return offset >= one.first; });
    const auto piece = static_cast<std::size_t>(std::distance(ranges.begin(), range));
    parameters_[parameter.unsafeGetTensorImpl()] = {.piece = piece};
    ++pieces_[piece].parameters;
  }
}

GradientBuckets::~GradientBuckets() { drop_hooks(); }

void GradientBuckets::drop_hooks() {
  for (const Hooked& hooked : hooks_) hooked.node->del_post_hook(hooked.hook);
  hooks_.clear();
}

// Nodes are asked for here and not kept: libtorch runs them on the stream that they were made on.
void GradientBuckets::begin() {
  drop_hooks();
  for (Piece& piece : pieces_) piece.written = 0;
  for (auto& [_, parameter] : parameters_) parameter.is_written = false;
  for (const at::Tensor& parameter : module_.dense_parameters()) {
    auto node = torch::autograd::impl::grad_accumulator(parameter);
    const auto hook = node->add_post_hook(std::make_unique<Hook>(*this, parameter));
    hooks_.push_back({std::move(node), hook});
  }
}

// A gradient after all others moves the mark, also where a parameter has several parts.
void GradientBuckets::added_gradient(const at::Tensor& parameter) {
  const auto found = parameters_.find(parameter.unsafeGetTensorImpl());
  if (found == parameters_.end()) return;
  Piece& piece = pieces_[found->second.piece];
  if (!std::exchange(found->second.is_written, true)) ++piece.written;
  if (piece.written == piece.parameters) marks_[found->second.piece].set();
}

std::size_t GradientBuckets::whole() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      pieces_, [](const Piece& piece) { return piece.written == piece.parameters; }));
}

void GradientBuckets::end(bool were_moved) {
  drop_hooks();
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (were_moved || pieces_[i].written < pieces_[i].parameters) marks_[i].set();
  }
}

}  // namespace muster
