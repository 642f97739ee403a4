#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "muster/train/compiler/graph.h"

namespace muster::compiler {

/// Runs a graph operation by operation, below autograd: on a GPU its work is given to this thread's
/// stream, and may be captured. Memory of a storage is let go after its last reader.
class Interpreter {
 public:
  explicit Interpreter(Graph graph);

  /// Returns the outputs of the step for these inputs. External memory is changed as by the step.
  /// Throws InvalidArgument where an input is not laid out as the recorded one.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

  /// Called for each node instead of running it: runs it by `execute`, as often as it likes.
  using Observer = std::function<void(const Node& node, const std::function<void()>& execute)>;
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs,
                              const Observer& observer) const;

  /// The same, where every tensor that an operation makes is moved by about what its type rounds:
  /// how far what a step leaves depends on rounding at all.
  std::vector<at::Tensor> run_perturbed(const std::vector<at::Tensor>& inputs) const;

  const Graph& graph() const { return graph_; }
  /// Bytes of computed storages at the fullest point.
  std::size_t peak_bytes() const;

 private:
  struct Run;
  using After = std::function<void(Run& run, std::size_t node)>;
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, const Observer& observer,
                              const After& after) const;
  void find_last_uses();

  Graph graph_;
  /// By node, the storages that nothing needs after it.
  std::vector<std::vector<StorageId>> freed_;
};

}  // namespace muster::compiler
