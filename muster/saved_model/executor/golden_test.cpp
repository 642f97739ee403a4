// Bits of the operations that the executor computes itself, with its own loops. Those that libtorch
// computes depend on libtorch's choice of instructions.
#include "muster/testing/golden.h"

#include "muster/saved_model/executor/fusion_graph_test_internal.h"

namespace muster::executor {
namespace {

using testing::expect_golden;

at::Tensor noise(at::IntArrayRef shape, std::uint64_t seed) {
  const at::Tensor values = at::empty(shape);
  testing::fill_with_noise({values.data_ptr<float>(), static_cast<std::size_t>(values.numel())},
                           seed);
  return values;
}

TEST(Golden, ChainsOfElementwiseOperations) {
  FusionGraph graph;
  graph.constant("mean", noise({}, 1)).constant("deviation", noise({33}, 2));
  graph.elementwise("a", "Sub", {"x", "mean"}).elementwise("b", "RealDiv", {"a", "deviation"});
  graph.elementwise("c", "Square", {"b"}).elementwise("d", "Mul", {"z", "c"});
  graph.elementwise("e", "AddV2", {"d", "x"}).elementwise("y", "Neg", {"e"});
  const Values outputs = graph.run(true, noise({65, 33}, 3), noise({65, 33}, 4));
  const graph::TensorValue found = to_tensor_value(outputs.at("y"));
  expect_golden(found.bytes, "e2bccb7edef010cb346b1558dd72acc90376ff79cdb05417db7f299a26408b62",
                "y");
}

}  // namespace
}  // namespace muster::executor
