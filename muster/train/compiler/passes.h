#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/train/compiler/graph.h"

/// Rewrites of a graph, each a file of its own. What a pass promises of the values that a step
/// leaves is said beside it: the same bits, or the same except for the sign of zeros, or values
/// that differ by rounding.
namespace muster::compiler {

struct PassOptions {
  /// Gaps of fewer elements between tensors in external memory are padding, which is zero before a
  /// step: see write_gradients().
  std::int64_t padding = 0;
  /// Whether operations become programs. On a GPU their kernels are generated; on the CPU programs
  /// are evaluated one element after the other, for tests.
  bool fuses = false;
  /// Whether fused steps pool by kernels of our own.
  bool pools = true;
  /// Whether fused steps launch small programs together.
  bool groups = true;
};

/// Removes nodes whose results nothing needs, and views, which values already are. Same bits.
void remove_dead_work(Graph& graph);

/// Operations that change a whole computed tensor make a new one instead, so that the passes after
/// find values that never change. Same bits.
void make_functional(Graph& graph);

/// One of several nodes that make the same of the same. Same bits.
void share_subexpressions(Graph& graph);

/// Copies and casts that give what is there already, and casts that the copy after them makes as
/// well. Same bits.
void remove_casts(Graph& graph);

/// A product and the broadcast sum with a bias after it, as C++'s Linear makes of three
/// dimensions, become one product with its bias. Differs by rounding: in bfloat16 the bias is
/// rounded before the sum, as PyTorch's Linear does it.
void join_bias(Graph& graph);

/// Gradients of select() and slice() that fill all of a tensor, each on zeros, and their sum,
/// become one tensor that each writes a part of. Same except for the sign of zeros.
void write_slices(Graph& graph);

/// Gradients that are added to memory that the step has zeroed are written there. The zeroing goes
/// where nothing but padding is left of it. Same except for the sign of zeros.
void write_gradients(Graph& graph, const PassOptions& options);

/// Casts of weights of convolutions over channels last lay them out likewise, so that no
/// convolution has to. Of GPUs, or `everywhere`, for tests. Same values to the convolution, which
/// may take another kernel.
void lay_out_weights(Graph& graph, bool everywhere = false);

/// Counters of int64, as batch norm has them, are counted by one kernel. Same bits.
void join_counters(Graph& graph);

/// Convolutions of two to four channels in a short type get eight or sixteen, as kernels of GPUs
/// are made for: those of stride 2 take squares of pixels for one of four times the channels,
/// others get channels of zeros. See ChannelBlocks. Of GPUs, or `everywhere`, for tests. Differs by
/// the order of sums.
void pad_channels(Graph& graph, bool everywhere = false);

/// Products in a short type that are copied into float32 memory alone are written there, where
/// libtorch can (2.8, on GPUs, or `everywhere`, for tests). Differs by rounding: they are not
/// rounded to the short type.
void write_products(Graph& graph, bool everywhere = false);

/// Operations on single elements become programs, which fuse() joins. Differs by rounding: a
/// program computes in float32.
void lower_elements(Graph& graph);

/// Sums over all but the innermost dimensions, and batch norm with channels innermost, forward and
/// backward, become programs: sums by blocks of rows, what is done with each column's, and
/// elements. Differs by rounding and the order of sums, which is fixed by the sizes.
void lower_sums(Graph& graph);

/// Layer norm and softmax over the innermost dimensions, forward and backward, become programs over
/// rows, whose values stay in registers between their sums. Differs by rounding and the order of
/// sums, which is fixed by the sizes.
void lower_rows(Graph& graph);

/// Parts of a concatenation are copied where they belong as soon as they are made, so that what
/// makes them may write them there. Same bits.
void write_concatenations(Graph& graph);

/// Gradients of embeddings' tables are written by a kernel of our own where they belong. Differs by
/// the order of sums, which is that of the words.
void lower_embedding(Graph& graph);

/// Max pooling with channels innermost and its way back become kernels that keep the place of a
/// maximum as a byte, where its index is eight. Differs by the order of sums where windows overlap.
void lower_pooling(Graph& graph);

/// Programs read what a cast to float32 read, and run early where they then meet what makes their
/// operands. Same bits.
void order_programs(Graph& graph);

/// Programs that read what another makes become one with it. Differs by rounding: what is not
/// written in between is not rounded to its type.
void fuse(Graph& graph);

/// Programs make values again that they read, where that takes reading less: the mask of a ReLU
/// from what its batch norm read. Values that all readers make again are not written. Differs by
/// rounding, as fuse() does.
void recompute(Graph& graph);

/// Small programs that do not depend on one another become one launch. Same bits.
void group_programs(Graph& graph);

/// Has the generated kernels of a graph on a GPU compiled, all at once.
void prepare_kernels(const Graph& graph);

/// All of them, in their order.
struct PassReport {
  std::string pass;
  std::size_t nodes_before = 0;
  std::size_t nodes_after = 0;
};
std::vector<PassReport> rewrite(Graph& graph, const PassOptions& options = {});

}  // namespace muster::compiler
