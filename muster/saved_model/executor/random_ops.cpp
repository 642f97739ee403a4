#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"

namespace muster::executor {
namespace {

// A source of random numbers of one node's own: what a model draws leaves libtorch's alone. May be
// used from any thread.
class NodeGenerator {
 public:
  // Two seeds of 0 ask for other numbers in each process.
  explicit NodeGenerator(const graph::NodeDef& node) {
    const auto first = static_cast<std::uint64_t>(graph::attr_or<std::int64_t>(node, "seed", 0));
    const auto second = static_cast<std::uint64_t>(graph::attr_or<std::int64_t>(node, "seed2", 0));
    const bool fixed = first != 0 || second != 0;
    constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;
    generator_ =
        at::detail::createCPUGenerator(fixed ? first * kSpread + second : std::random_device{}());
  }

  template <typename Draw>
  at::Tensor draw(const Draw& draw) {
    const std::scoped_lock lock(mutex_);
    return draw(generator_);
  }

 private:
  std::mutex mutex_;
  at::Generator generator_;
};

using DrawFloats = at::Tensor (*)(at::IntArrayRef sizes, const at::Generator& generator,
                                  at::ScalarType type);

KernelFactory random_floats(DrawFloats draw) {
  return [draw](const KernelContext& context) -> Kernel {
    const auto type = scalar_type(graph::attr<graph::DataType>(context.node, "dtype"));
    if (!at::isFloatingType(type)) throw InvalidArgument("dtype must be a floating-point type");
    return
        [draw, type, source = std::make_shared<NodeGenerator>(context.node)](const Inputs& inputs) {
          const auto sizes = inputs.ints(0);
          inputs.check_room(sizes, type);
          const at::Tensor drawn = source->draw(
              [&](const at::Generator& generator) { return draw(sizes, generator, type); });
          return Slots{drawn.to(inputs.device())};
        };
  };
}

// Whole numbers from input 1 to below input 2.
Kernel random_ints(const KernelContext& context) {
  return [source = std::make_shared<NodeGenerator>(context.node)](const Inputs& inputs) {
    const auto sizes = inputs.ints(0);
    const at::Tensor low = inputs.host_tensor(1);
    const auto from = inputs.integer(1);
    const auto to = inputs.integer(2);
    if (from >= to) throw InvalidArgument("there is no number from {} to below {}", from, to);
    inputs.check_room(sizes, low);
    return Slots{source->draw([&](const at::Generator& generator) {
      return at::randint(from, to, sizes, generator, low.options());
    })};
  };
}

}  // namespace

void add_random_ops(OpTable& table) {
  table.add("RandomUniform",
            random_floats([](at::IntArrayRef sizes, const at::Generator& generator,
                             at::ScalarType type) { return at::rand(sizes, generator, type); }));
  table.add("RandomStandardNormal",
            random_floats([](at::IntArrayRef sizes, const at::Generator& generator,
                             at::ScalarType type) { return at::randn(sizes, generator, type); }));
  table.add("RandomUniformInt", random_ints);
}

}  // namespace muster::executor
