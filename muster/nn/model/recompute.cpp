#include "muster/nn/model/recompute.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <regex>
#include <utility>

#include "muster/base/error.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/nn/model/graph_node_internal.h"
#include "muster/nn/model/random_scope.h"

namespace muster {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

constexpr std::size_t kModulesNamed = 8;

/// Whether this thread computes a module's forward again.
thread_local bool is_recomputing = false;

class Recomputing {
 public:
  Recomputing() { is_recomputing = true; }
  ~Recomputing() { is_recomputing = false; }
  Recomputing(const Recomputing&) = delete;
  Recomputing& operator=(const Recomputing&) = delete;
};

/// Puts a module's buffers back, such as a batch norm's statistics, which a forward moves.
class BuffersKept {
 public:
  explicit BuffersKept(const torch::nn::Module& module) : buffers_(module.buffers()) {
    for (const at::Tensor& buffer : buffers_) values_.push_back(buffer.clone());
  }
  ~BuffersKept() {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(values_[i]);
  }
  BuffersKept(const BuffersKept&) = delete;
  BuffersKept& operator=(const BuffersKept&) = delete;

 private:
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> values_;
};

/// All that a forward depends on beside its inputs and parameters.
struct Surroundings {
  std::optional<RandomScope::Position> random{};
  std::optional<at::ScalarType> autocast{};

  static Surroundings now() {
    const RandomScope* const scope = RandomScope::current();
    return {scope == nullptr ? std::nullopt : std::optional(scope->position()),
            compat::autocast_type(at::kCPU)};
  }
};

using Forward = std::function<at::Tensor(std::span<const at::Tensor> inputs)>;

/// The backward of a module: its forward again, and the backward of that, which adds to the
/// gradients of the parameters.
class RecomputeNode : public torch::autograd::Node {
 public:
  RecomputeNode(torch::nn::Module& module, const std::vector<at::Tensor>& inputs, Forward forward,
                Surroundings surroundings)
      : module_(module), forward_(std::move(forward)), surroundings_(std::move(surroundings)) {
    for (const at::Tensor& input : inputs) {
      inputs_.emplace_back(input, /*is_output=*/false);
      has_gradient_.push_back(input.defined() && input.requires_grad());
    }
  }

  void release_variables() override {
    for (SavedVariable& input : inputs_) input.reset_data();
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list results(inputs_.size());
    if (!gradients[0].defined()) return results;
    const BuffersKept buffers(module_);
    std::vector<at::Tensor> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const at::Tensor input = inputs_[i].unpack();
      inputs.push_back(input.defined() ? input.detach().set_requires_grad(has_gradient_[i])
                                       : input);
    }
    const at::Tensor output = forward_again(inputs);
    torch::autograd::backward({output}, {gradients[0]});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (has_gradient_[i]) results[i] = inputs[i].grad();
    }
    return results;
  }

 private:
  at::Tensor forward_again(const std::vector<at::Tensor>& inputs) const {
    const at::AutoGradMode with_gradients(true);
    const Recomputing scope;
    std::optional<RandomScope> random;
    if (surroundings_.random) random.emplace(*surroundings_.random);
    const compat::AutocastScope autocast(surroundings_.autocast.has_value(), at::kCPU,
                                         surroundings_.autocast.value_or(at::kBFloat16));
    return forward_(inputs);
  }

  torch::nn::Module& module_;
  const Forward forward_;
  const Surroundings surroundings_;
  std::vector<SavedVariable> inputs_;
  std::vector<bool> has_gradient_;
};

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

// A backward may run while another replica draws, so what libtorch's generator gave is not drawn
// again.
at::Tensor first_forward(const std::vector<at::Tensor>& inputs, const Forward& forward) {
  const torch::NoGradGuard no_grad;
  const at::Tensor before = generator_state();
  at::Tensor output = forward(inputs);
  // Casts that were made without gradients are of no use to the modules after this one.
  if (compat::autocast_type(at::kCPU)) at::autocast::clear_cache();
  if (generator_state().equal(before)) return output.detach();
  throw FailedPrecondition(
      "a module that is computed again in the backward draws from libtorch's generator: use "
      "muster::Dropout in place of torch::nn::Dropout, or leave the module out of recompute");
}

bool is_on_cpu(const std::vector<at::Tensor>& inputs) {
  for (const at::Tensor& input : inputs) {
    if (input.defined() && !input.is_cpu()) return false;
  }
  return true;
}

}  // namespace

at::Tensor Recomputable::recomputed(torch::nn::Module& self, const std::vector<at::Tensor>& inputs,
                                    Forward forward) const {
  const bool is_plain = !recomputes_ || !self.is_training() || !at::GradMode::is_enabled() ||
                        is_recomputing || kernels::wants_operations() || !is_on_cpu(inputs);
  if (is_plain) return forward(inputs);
  Surroundings surroundings = Surroundings::now();
  at::Tensor output = first_forward(inputs, forward);
  torch::autograd::edge_list edges;
  for (const at::Tensor& input : inputs) {
    edges.push_back(input.defined() ? torch::autograd::impl::gradient_edge(input)
                                    : torch::autograd::Edge());
  }
  internal::set_node(
      output,
      std::make_unique<RecomputeNode>(self, inputs, std::move(forward), std::move(surroundings)),
      std::move(edges));
  return output;
}

std::size_t recompute_modules(torch::nn::Module& model, const std::string& pattern) {
  std::regex expression;
  try {
    expression = std::regex(pattern);
  } catch (const std::regex_error& error) {
    throw InvalidArgument("recompute \"{}\" is no regular expression: {}", pattern, error.what());
  }
  std::size_t count = 0;
  std::vector<std::string> names;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    auto* const module = dynamic_cast<Recomputable*>(item.value().get());
    if (module == nullptr) continue;
    if (names.size() < kModulesNamed) names.push_back(item.key());
    const bool is_named = std::regex_match(item.key(), expression);
    if (is_named) module->set_recomputes(true);
    count += is_named ? 1 : 0;
  }
  if (count > 0) return count;
  throw InvalidArgument(
      "recompute \"{}\" is the name of no module that can be computed again; {}", pattern,
      names.empty() ? std::string("the model has none: derive its blocks from muster::Recomputable")
                    : fmt::format("such are {}", fmt::join(names, ", ")));
}

}  // namespace muster
