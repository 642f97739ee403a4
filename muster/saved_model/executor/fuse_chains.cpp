// Chains of element-wise steps as one: what would be written out and read again between two steps
// stays in the cache, and a request of one row has fewer steps to keep account of.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "muster/saved_model/executor/fused_chain_internal.h"
#include "muster/saved_model/executor/in_node_internal.h"
#include "muster/saved_model/executor/plan_internal.h"
#include "muster/saved_model/executor/small_tensor_ops_internal.h"

namespace muster::executor {
namespace {

// Elements that go through a whole chain before the next ones do.
constexpr std::int64_t kBlock = 1024;

std::optional<ChainOp> chain_op(std::string_view op) {
  if (op == "Add" || op == "AddV2") return ChainOp::kAdd;
  if (op == "Sub") return ChainOp::kSub;
  if (op == "Mul" || op == "Square") return ChainOp::kMul;
  if (op == "RealDiv" || op == "Div") return ChainOp::kDiv;
  if (op == "Neg") return ChainOp::kNeg;
  return std::nullopt;
}

std::size_t operands_of(std::string_view op) { return op == "Square" || op == "Neg" ? 1 : 2; }

/// Computes a chain in one loop, or node by node what is not floats of one shape.
class ChainKernel {
 public:
  explicit ChainKernel(std::shared_ptr<const FusedChain> chain) : chain_(std::move(chain)) {}

  Slots operator()(const Inputs& inputs) const {
    const auto& nodes = chain_->nodes;
    auto fast = in_node(nodes.front().name, nodes.front().op, [&] {
      // The plan has counted one.
      for (std::size_t i = 1; i < nodes.size(); ++i) inputs.budget().begin_operation();
      return in_one_loop(inputs);
    });
    if (fast) return {std::move(*fast)};
    return run_nodes(nodes, inputs);
  }

 private:
  // Nothing where an input is not floats, or has another shape than the result and is not single.
  std::optional<at::Tensor> in_one_loop(const Inputs& inputs) const {
    const at::Tensor* largest = nullptr;
    c10::SmallVector<ChainOperand, 16> operands;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto* tensor = std::get_if<at::Tensor>(&inputs.slots()[i]);
      if (tensor == nullptr || !tensor->defined() || tensor->scalar_type() != at::kFloat ||
          !is_readable(*tensor) || tensor->numel() == 0) {
        return std::nullopt;
      }
      const auto rank = [](const at::Tensor& one) { return std::pair(one.numel(), one.dim()); };
      if (largest == nullptr || rank(*tensor) > rank(*largest)) largest = tensor;
      operands.push_back({tensor->data_ptr<float>(), tensor->numel() == 1});
    }
    if (largest == nullptr) return std::nullopt;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& tensor = std::get<at::Tensor>(inputs.slots()[i]);
      const bool is_single = tensor.numel() == 1 && tensor.dim() <= largest->dim();
      if (!is_single && tensor.sizes() != largest->sizes()) return std::nullopt;
    }
    inputs.check_room(largest->sizes(), at::kFloat);
    at::Tensor out = empty_on_host(largest->sizes(), at::kFloat);
    chain_->compute({operands.data(), operands.size()}, out.numel(), out.data_ptr<float>());
    return out;
  }

  std::shared_ptr<const FusedChain> chain_;
};

void compute_block(const FusedChain& chain, std::span<const ChainOperand> inputs,
                   std::int64_t begin, std::size_t count, float* out) {
  std::array<std::array<float, kBlock>, 2> values;
  const float* previous = nullptr;
  for (std::size_t i = 0; i < chain.nodes.size(); ++i) {
    const auto operand = [&](std::size_t input) -> ChainOperand {
      if (input == FusedNode::kPrevious) return {previous, false};
      const ChainOperand& given = inputs[input];
      return {given.values + (given.is_single ? 0 : begin), given.is_single};
    };
    // A square is a product with itself.
    const ChainOperand left = operand(chain.nodes[i].inputs.front());
    const ChainOperand right = operand(chain.nodes[i].inputs.back());
    float* const target = i + 1 == chain.nodes.size() ? out : values[i % 2].data();
    apply(chain.ops[i], left, right, target, count);
    previous = target;
  }
}

}  // namespace

void FusedChain::compute(std::span<const ChainOperand> inputs, std::int64_t count,
                         float* out) const {
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    compute_block(*this, inputs, begin, static_cast<std::size_t>(std::min(kBlock, count - begin)),
                  out + begin);
  }
}

bool may_be_chained(std::string_view op) { return chain_op(op).has_value(); }

/// Finds chains in the steps of a plan and puts one step instead of each.
class ChainFusion {
 public:
  explicit ChainFusion(Plan& plan) : plan_(plan), readers_(plan.steps_.size() + 1) {
    for (std::size_t i = 0; i < plan_.steps_.size(); ++i) {
      for (const auto& source : plan_.steps_[i].inputs) {
        if (source.place != Plan::kFolded) readers_[source.place].add(i);
      }
    }
    for (const auto& fetch : plan_.fetches_) {
      if (fetch.place != Plan::kFolded) readers_[fetch.place].add(kFetch);
    }
  }

  void run() {
    std::vector<bool> is_gone(plan_.steps_.size() + 1, false);
    for (std::size_t i = 0; i < plan_.steps_.size(); ++i) {
      const auto chain = chain_from(i);
      if (chain.size() < 2) continue;
      for (const std::size_t step : chain) is_gone[step + 1] = step != chain.back();
      join(chain);
    }
    plan_.drop(is_gone);
  }

 private:
  using Source = Plan::Source;
  using Step = Plan::Step;
  static constexpr std::size_t kFetch = static_cast<std::size_t>(-1);

  /// The step that reads a value, unless several do.
  struct Reader {
    std::optional<std::size_t> only{};
    bool are_several = false;

    void add(std::size_t step) {
      are_several = are_several || (only && *only != step);
      only = step;
    }
  };

  // An output that no element-wise step has: a step that reads it is refused when it runs.
  bool is_missing(const Source& source) const {
    return source.place != Plan::kFolded && source.place != 0 && source.output != 0 &&
           may_be_chained(plan_.steps_[source.place - 1].op);
  }

  bool can_be_chained(std::size_t i) const {
    const Step& step = plan_.steps_[i];
    return step.node != nullptr && !step.names_its_errors && may_be_chained(step.op) &&
           step.inputs.size() == operands_of(step.op) &&
           std::ranges::none_of(step.inputs, [&](const auto& in) { return is_missing(in); }) &&
           graph::attr_or<graph::DataType>(*step.node, "T", graph::DataType::kInvalid) ==
               graph::DataType::kFloat;
  }

  std::vector<std::size_t> chain_from(std::size_t i) const {
    std::vector<std::size_t> chain;
    for (std::optional<std::size_t> next = i; next && can_be_chained(*next);) {
      chain.push_back(*next);
      const Reader& reader = readers_[*next + 1];
      next = reader.are_several || reader.only == kFetch ? std::nullopt : reader.only;
    }
    return chain;
  }

  void join(const std::vector<std::size_t>& chain) {
    auto made = std::make_shared<FusedChain>();
    std::vector<FusedNode>& nodes = made->nodes;
    std::vector<Source> inputs;
    for (const std::size_t i : chain) {
      Step& step = plan_.steps_[i];
      FusedNode node{.name = step.name, .op = step.op, .kernel = step.kernel};
      for (const Source& source : step.inputs) {
        const bool is_previous = !nodes.empty() && source.place == chain[nodes.size() - 1] + 1;
        node.inputs.push_back(is_previous ? FusedNode::kPrevious : inputs.size());
        if (!is_previous) inputs.push_back(source);
      }
      made->ops.push_back(*chain_op(node.op));
      nodes.push_back(std::move(node));
      // A step belongs to one chain at most.
      step.node = nullptr;
    }
    Step& last = plan_.steps_[chain.back()];
    last.op = "FusedElementwise";
    last.inputs = std::move(inputs);
    last.kernel = ChainKernel(made);
    last.chain = std::move(made);
    last.names_its_errors = true;
  }

  Plan& plan_;
  // By place.
  std::vector<Reader> readers_;
};

void Plan::fuse_chains() { ChainFusion(*this).run(); }

}  // namespace muster::executor
