#include <functional>

#include "muster/train/compiler/passes.h"

namespace muster::compiler {

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
    pass("elements", [&] { lower_elements(graph); });
    pass("sums", [&] { lower_sums(graph); });
    if (options.pools) pass("pooling", [&] { lower_pooling(graph); });
    pass("fuse", [&] { fuse(graph); });
    pass("dead work", [&] { remove_dead_work(graph); });
  }
  return reports;
}

}  // namespace muster::compiler
