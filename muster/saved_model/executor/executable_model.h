#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/saved_model/executor/explanation.h"
#include "muster/saved_model/executor/memory_pool.h"
#include "muster/saved_model/executor/run_limits.h"
#include "muster/saved_model/executor/value.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/saved_model/graph/tensor_values.h"

namespace muster::executor {

using Values = std::map<std::string, Value, std::less<>>;
/// The same as messages have them.
using graph::TensorValues;

struct LoadOptions {
  /// Which graph of the SavedModel.
  std::vector<std::string> tags{std::string(graph::kServeTag)};
  /// Where variables live and numbers are computed.
  at::Device device{at::kCPU};
  /// The signatures to make ready; all when empty.
  std::vector<std::string> signatures{};
  /// Whether inputs must have the shapes that signatures declare. TensorFlow does not look at
  /// these: it only asks for the shapes of placeholders.
  bool declared_shapes = true;
  /// Whether convolutions and dense layers with constant weights are fused with what follows them:
  /// faster, with results that round differently.
  bool fuse_layers = true;
  /// Whether a GPU gets what it computes as one piece, a CUDA graph for each batch size, as far as
  /// the host need not look at values on the way: faster, with the same results. Graphs that cannot
  /// be captured run operation by operation, and the log says why.
  bool capture = true;
  /// Whether requests of some rows are computed in an arena, where the graph is made of operations
  /// that can be: faster, with the same results.
  bool arena = true;
  /// Whether explain() is answered: signatures are kept as they were before layers were fused, too.
  /// Weights that are constants of the graph are then in memory twice; variables are not.
  bool explain = false;
  /// Limits of each request, and of the load itself. A thread whose ComputeDeadline passes gives
  /// up, too.
  RunLimits limits{};
  /// Memory that requests and loads share, of this model and of others with the same pool. None: as
  /// much as each may hold.
  std::shared_ptr<MemoryPool> memory{};
};

/// A SavedModel that is ready to answer: its variables are read, its tables filled, its signatures
/// checked. All functions may be called from any thread.
class ExecutableModel {
 public:
  /// Reads a SavedModel folder. Throws NotFound and DataLoss for files, Unimplemented for an
  /// operation or type that is not supported, naming operation and node, InvalidArgument for a
  /// graph that is not sound, ResourceExhausted for one that needs more than the limits.
  static ExecutableModel load(const Path& dir, const LoadOptions& options = {});
  /// The same for a graph in memory; `dir` is where its variables and assets are, or empty when it
  /// has none.
  static ExecutableModel from(graph::MetaGraph meta, const Path& dir,
                              const LoadOptions& options = {});
  ~ExecutableModel();
  ExecutableModel(ExecutableModel&&) noexcept;
  ExecutableModel& operator=(ExecutableModel&&) noexcept;

  /// Those that run() knows, by name.
  const std::map<std::string, graph::SignatureDef, std::less<>>& signatures() const;

  /// The operations that run() goes through for a signature, in their order, fused ones
  /// ("FusedConv2D", "FusedMatMul") among them. Throws NotFound.
  std::vector<std::string> planned_operations(std::string_view signature) const;

  /// How many batch sizes of a signature are captured as CUDA graphs now. Throws NotFound.
  std::size_t captured_graphs(std::string_view signature) const;

  /// Answers. Only the nodes that the signature's outputs need are run. Throws NotFound for another
  /// signature, InvalidArgument for inputs that are missing, unknown, or of another type or shape;
  /// ResourceExhausted beyond the limits; errors inside the graph name the node. Results are in the
  /// memory of the host, and may share it with the model: do not write to them.
  Values run(std::string_view signature, const Values& inputs) const;

  /// The same without a copy into libtorch's memory, where a request of some rows can be answered
  /// so. Nothing where it cannot, for bad inputs among them: run() says what is wrong. Throws
  /// ResourceExhausted.
  std::optional<TensorValues> run_in_arena(std::string_view signature,
                                           const TensorValues& inputs) const;
  /// Whether run() tries that for a signature. Throws NotFound.
  bool has_arena(std::string_view signature) const;

  /// Integrated gradients: the part of each input in a number of an output, on the straight way
  /// from a baseline to these inputs. Both have one row. Inputs of floating-point numbers have
  /// parts for each element; words and whole numbers one each, by the rows that they stand for in
  /// tables or embeddings. Without a baseline all of these begin at 0. Throws what run() throws;
  /// FailedPrecondition for a model that was loaded without LoadOptions::explain, or an output that
  /// no input changes; Unimplemented where an operation on the way has no gradient here, naming it.
  Explanation explain(std::string_view signature, const Values& inputs,
                      const ExplainOptions& options = {},
                      const std::optional<Values>& baseline = std::nullopt) const;

 private:
  struct Impl;
  explicit ExecutableModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The names of the operations that can be run, sorted.
std::vector<std::string> supported_operations();
/// The same as a page of Markdown: docs/formats/supported_operations.md.
std::string supported_operations_page();

}  // namespace muster::executor
