// Layers and chains of element-wise steps in an arena, and what libtorch rounds in its own way.
#include <ATen/ops/_softmax_cpu_dispatch.h>
#include <ATen/ops/exp_cpu_dispatch.h>
#include <ATen/ops/log_cpu_dispatch.h>
#include <ATen/ops/relu_cpu_dispatch.h>
#include <ATen/ops/sigmoid_cpu_dispatch.h>
#include <ATen/ops/tanh_cpu_dispatch.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/saved_model/executor/arena_kernels_internal.h"
#include "muster/saved_model/executor/recycled_tensors_internal.h"
#include "muster/saved_model/executor/small_tensor_ops_internal.h"

namespace muster::executor::arena {
namespace {

bool is_matrix(const ArenaValue& value, std::int64_t rows, std::int64_t columns) {
  return value.type == ArenaType::kFloat && value.rank == 2 && value.sizes[0] == rows &&
         value.sizes[1] == columns;
}

ArenaOp fused_product(const ArenaNode& of) {
  if (of.layer == nullptr || of.layer->window) return {};
  return {[weights = of.layer->weights, rows = of.layer->images, addend = of.layer->addend,
           relu = of.layer->relu](ArenaCall& call) {
    const ArenaValue& in = call.in(rows);
    if (!is_matrix(in, in.sizes[0], weights->channels()) || in.count == 0) return false;
    const std::array<std::int64_t, 2> sizes{in.sizes[0], weights->outputs()};
    const ArenaValue* const more = addend ? &call.in(*addend) : nullptr;
    if (more != nullptr && !is_matrix(*more, sizes[0], sizes[1])) return false;
    auto* const to = call.make<float>(ArenaType::kFloat, sizes);
    if (to == nullptr) return false;
    weights->multiply(in.as<float>(), sizes[0], relu, more == nullptr ? nullptr : more->as<float>(),
                      to);
    return true;
  }};
}

ArenaOp fused_chain(const ArenaNode& of) {
  if (of.chain == nullptr) return {};
  return {[chain = *of.chain](ArenaCall& call) {
    const ArenaValue* largest = &call.in(0);
    auto* const operands = call.take<ChainOperand>(static_cast<std::int64_t>(call.size()));
    if (operands == nullptr) return false;
    for (std::size_t i = 0; i < call.size(); ++i) {
      const ArenaValue& in = call.in(i);
      if (in.type != ArenaType::kFloat || in.count == 0) return false;
      if (std::pair(in.count, in.rank) > std::pair(largest->count, largest->rank)) largest = &in;
      operands[i] = {in.as<float>(), in.count == 1};
    }
    for (std::size_t i = 0; i < call.size(); ++i) {
      const ArenaValue& in = call.in(i);
      const bool is_single = in.count == 1 && in.rank <= largest->rank;
      if (!is_single && !in.has_shape_of(*largest)) return false;
    }
    auto* const to = call.make<float>(ArenaType::kFloat, largest->shape());
    if (to == nullptr) return false;
    chain.compute({operands, call.size()}, largest->count, to);
    return true;
  }};
}

using InPlace = void (*)(at::Tensor&);

/// Computes by libtorch, whose approximations no other library has: its functions for the CPU, past
/// the dispatcher, which takes longer than a few numbers.
bool by_libtorch(ArenaCall& call, InPlace compute) {
  const ArenaValue& in = call.in(0);
  if (in.type != ArenaType::kFloat || in.count == 0) return false;
  const auto bytes = static_cast<std::size_t>(in.count) * sizeof(float);
  const auto shape = in.shape();
  void* const to = call.make(ArenaType::kFloat, shape);
  if (to == nullptr) return false;
  at::Tensor tensor = empty_on_host(at::IntArrayRef(shape.data(), shape.size()), at::kFloat);
  std::memcpy(tensor.data_ptr(), in.data, bytes);
  compute(tensor);
  std::memcpy(to, tensor.data_ptr(), bytes);
  recycle(std::move(tensor));
  return true;
}

template <InPlace kCompute>
ArenaOp libtorch_op(const ArenaNode&) {
  return {[](ArenaCall& call) { return by_libtorch(call, kCompute); }};
}

void sigmoid(at::Tensor& tensor) { at::cpu::sigmoid_(tensor); }
void tanh_of(at::Tensor& tensor) { at::cpu::tanh_(tensor); }
void exp_of(at::Tensor& tensor) { at::cpu::exp_(tensor); }
void log_of(at::Tensor& tensor) { at::cpu::log_(tensor); }
void relu_of(at::Tensor& tensor) { at::cpu::relu_(tensor); }
void softmax(at::Tensor& tensor) {
  at::Tensor out = empty_on_host(tensor.sizes(), at::kFloat);
  at::cpu::_softmax_out(out, tensor, -1, /*half_to_float=*/false);
  std::swap(tensor, out);
  recycle(std::move(out));
}

}  // namespace

ArenaFactories layer_ops() {
  using Op = ArenaEntry;
  static constexpr std::array kOps{
      Op{"Exp", 1, libtorch_op<exp_of>},      Op{"FusedElementwise", 1, fused_chain},
      Op{"FusedMatMul", 2, fused_product},    Op{"Log", 1, libtorch_op<log_of>},
      Op{"Relu", 1, libtorch_op<relu_of>},    Op{"Sigmoid", 1, libtorch_op<sigmoid>},
      Op{"Softmax", 1, libtorch_op<softmax>}, Op{"Tanh", 1, libtorch_op<tanh_of>},
  };
  return kOps;
}

}  // namespace muster::executor::arena
