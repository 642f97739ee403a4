#include <functional>
#include <utility>
#include <vector>

#include "muster/train/compiler/device_kernel.h"
#include "muster/train/compiler/kernel.h"
#include "muster/train/compiler/passes.h"

namespace muster::compiler {

void prepare_kernels(const Graph& graph) {
  std::vector<KernelSource> sources;
  for (const Node& node : graph.nodes) {
    if (!node.kernel || !graph.geometry(values_read(node)[0]).device.is_cuda()) continue;
    if (auto source = node.kernel->source()) sources.push_back(std::move(*source));
  }
  if (!sources.empty()) prepare_device_kernels(sources);
}

std::vector<PassReport> rewrite(Graph& graph, const PassOptions& options) {
  std::vector<PassReport> reports;
  const auto pass = [&](const char* name, const std::function<void()>& work) {
    const std::size_t before = graph.nodes.size();
    work();
    reports.push_back({name, before, graph.nodes.size()});
  };
  pass("dead work", [&] { remove_dead_work(graph); });
  pass("functional", [&] { make_functional(graph); });
  pass("common subexpressions", [&] { share_subexpressions(graph); });
  pass("bias", [&] { join_bias(graph); });
  pass("slices", [&] { write_slices(graph); });
  pass("gradients", [&] { write_gradients(graph, options); });
  pass("casts", [&] { remove_casts(graph); });
  pass("dead work", [&] { remove_dead_work(graph); });
  if (options.fuses) {
    pass("weights", [&] { lay_out_weights(graph); });
    pass("channels", [&] { pad_channels(graph); });
    pass("counters", [&] { join_counters(graph); });
    pass("products", [&] { write_products(graph); });
    pass("concatenations", [&] { write_concatenations(graph); });
    pass("embeddings", [&] { lower_embedding(graph); });
    pass("elements", [&] { lower_elements(graph); });
    pass("rows", [&] { lower_rows(graph); });
    pass("sums", [&] { lower_sums(graph); });
    if (options.pools) pass("pooling", [&] { lower_pooling(graph); });
    pass("dead work", [&] { remove_dead_work(graph); });
    pass("order", [&] { order_programs(graph); });
    pass("fuse", [&] { fuse(graph); });
    pass("recompute", [&] { recompute(graph); });
    pass("dead work", [&] { remove_dead_work(graph); });
    if (options.groups) pass("groups", [&] { group_programs(graph); });
  }
  return reports;
}

}  // namespace muster::compiler
