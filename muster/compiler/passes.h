#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/compiler/graph.h"

/// Rewrites of a graph, each a file of its own. What a pass promises of the values that a step
/// leaves is said beside it: the same bits, or the same but for the sign of zeros, or values that
/// differ by rounding.
namespace muster::compiler {

struct PassOptions {
  /// Gaps of fewer elements between tensors in external memory are padding, which is zero before a
  /// step: see write_gradients().
  std::int64_t padding = 0;
};

/// Removes nodes whose results nothing needs, and views, which values already are. Same bits.
void remove_dead_work(Graph& graph);

/// Operations that change a whole computed tensor make a new one instead, so that the passes behind
/// find values that never change. Same bits.
void make_functional(Graph& graph);

/// One of several nodes that make the same of the same. Same bits.
void share_subexpressions(Graph& graph);

/// Copies and casts that give what is there already, and casts that the copy behind them makes as
/// well. Same bits.
void remove_casts(Graph& graph);

/// A product and the broadcast sum with a bias behind it, as C++'s Linear makes of three
/// dimensions, become one product with its bias. Differs by rounding: in bfloat16 the bias is
/// rounded before the sum, as PyTorch's Linear does it.
void join_bias(Graph& graph);

/// Gradients of select() and slice() that fill all of a tensor, each on zeros, and their sum,
/// become one tensor that each writes a part of. Same but for the sign of zeros.
void write_slices(Graph& graph);

/// Gradients that are added to memory that the step has zeroed are written there. The zeroing goes
/// where nothing but padding is left of it. Same but for the sign of zeros.
void write_gradients(Graph& graph, const PassOptions& options);

/// All of them, in their order.
struct PassReport {
  std::string pass;
  std::size_t nodes_before = 0;
  std::size_t nodes_after = 0;
};
std::vector<PassReport> rewrite(Graph& graph, const PassOptions& options = {});

}  // namespace muster::compiler
