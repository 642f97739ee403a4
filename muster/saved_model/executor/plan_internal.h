#pragma once

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/while_loops_internal.h"
#include "muster/saved_model/graph/graph_def.h"

namespace muster::executor {

class LaidOutLayers;
struct FusedChain;
struct FusedLayer;

/// Whether it runs functions of the graph.
bool calls_functions(std::string_view op);
/// Whether fuse() or merge() want to know the attributes of such a node.
bool may_be_fused(std::string_view op);
bool may_be_merged(std::string_view op);
/// Whether it is element-wise and fuse() may compute it in one loop with others.
bool may_be_chained(std::string_view op);

/// The nodes that some outputs need, in an order in which each comes after its inputs, with their
/// kernels. Immutable; may be run from several threads at once.
class Plan {
 public:
  /// The values of the fetches. `arguments` are those of the feeds, in their order. Errors name the
  /// node; ResourceExhausted is thrown where the budget ends.
  Slots run(Slots arguments, Budget& budget) const;

  /// Whether some step may assign to a variable.
  bool may_assign() const;
  /// Computes now, for good, what does not depend on the arguments: constants, shapes, and with
  /// `variables_stay` what is made of variables alone, which must have their values. What fails, or
  /// would keep much memory, is left for run(), and all the rest where the budget of the load ends.
  void fold(bool variables_stay, Budget& load);
  /// After fold(): takes out steps that only pass a value on, and those that compute what another
  /// has computed.
  void merge();
  /// After fold(): puts one step instead of a convolution or product with what follows it, as
  /// far as that rounds differently at most. Weights are laid out in `layers`, which other plans of
  /// the model share. What does not fit into the budget of the load stays as it is. Then one in the
  /// place of each chain of element-wise steps on floats, with the same results to the bit.
  void fuse(LaidOutLayers& layers, Budget& load);

  /// Whether some step may change what a table holds.
  bool may_fill_tables() const;
  /// After fuse() nothing asks for attributes of nodes any more.
  void forget_nodes();

  /// The operations of the steps in their order, those made by fuse() among them.
  std::vector<std::string> operations() const;

 private:
  friend class ArenaPlan;
  friend class CapturedPlan;
  friend class ChainFusion;
  friend class GradientPath;
  friend class LayerFusion;
  friend class Planner;

  // The place of what fold() computed.
  static constexpr std::size_t kFolded = static_cast<std::size_t>(-1);

  struct Source {
    std::size_t place = 0;  // 0 are the arguments, i the outputs of step i - 1
    std::size_t output = 0;
  };
  struct Step {
    std::string name;
    std::string op;
    Kernel kernel;
    std::vector<Source> inputs;
    // With its attributes, where fuse() or merge() may need them.
    std::shared_ptr<const graph::NodeDef> node;
    // Layer or chain that it computes, where fuse() made it.
    std::shared_ptr<const FusedLayer> layer{};
    std::shared_ptr<const FusedChain> chain{};
    // Whether it stands for several nodes, whose names its kernel adds to errors.
    bool names_its_errors = false;
    // Places of what must be done before, though nothing of it is read.
    std::vector<std::size_t> controls;
    // Places that no later step reads.
    std::vector<std::size_t> release;
  };
  class Frame;

  void fuse_chains();
  // Takes out these steps, by their places, which nothing reads any more.
  void drop(const std::vector<bool>& is_gone);
  // Puts the steps in this order, in which each still comes after its inputs.
  void reorder(const std::vector<std::size_t>& order);
  // How many outputs of a place are looked at, with those before them.
  std::size_t outputs_read(std::size_t place) const;
  // Says after which step each value is needed no more.
  void set_releases();
  std::optional<Slots> folded(const Step& step, const std::vector<std::optional<Slots>>& known,
                              bool variables_stay, std::int64_t& room, Budget& load) const;
  Slots run_step(const Step& step, const SlotRefs& inputs, Budget& budget) const;
  // Some of the steps, on the values of a run.
  void run_steps(Frame& frame, std::size_t begin, std::size_t end, Budget& budget) const;
  void run_into(Frame& frame, std::size_t i, std::span<const Slot*> room, Budget& budget) const;

  at::Device device_{at::kCPU};
  // Whether a Switch may leave values dead.
  bool has_dead_ = false;
  std::vector<Step> steps_;
  std::vector<Source> fetches_;
  Slots folded_;
  // Largest number of inputs of one step.
  std::size_t most_inputs_ = 0;
};

/// Makes plans of one graph. Keeps references to what it is given.
class Planner {
 public:
  struct Environment {
    const graph::GraphDef& graph;
    const OpTable& ops;
    at::Device device;
    Resources& resources;
    /// Budget of the load, for values that functions compute in advance.
    Budget& budget;
    Path variables_prefix{};
    Path assets_dir{};
    /// For layers of functions; none where graphs are not rewritten.
    LaidOutLayers* layers = nullptr;
    /// Whether plans are to be captured, for which the attributes of all nodes are kept.
    bool captures = false;
  };
  explicit Planner(Environment environment);

  /// `feeds` and `fetches` are tensors ("x:0"), `targets` are nodes that must run. Throws
  /// Unimplemented for an operation that is not in the table, InvalidArgument for a cycle, an input
  /// that is not there, a wrong attribute; errors name the node.
  Plan plan(const std::vector<std::string>& feeds, const std::vector<std::string>& fetches,
            const std::vector<std::string>& targets);

 private:
  struct Body;
  class Compilation;

  Plan compile(const Body& body);
  // For a function or a loop, whose arguments are only known at a call, variables among them.
  void rewrite(Plan& plan);
  std::shared_ptr<const Plan> function(const std::string& name);
  // The condition or body of a loop of TensorFlow 1.
  Plan loop_part(const std::string& name, const LoopPart& part);
  Kernel make_kernel(const graph::NodeDef& node, const Op& op);

  Environment environment_;
  // The graph's nodes where it has loops of TensorFlow 1, or why they cannot be run, which is
  // thrown where one is needed.
  std::optional<LoopedGraph> looped_;
  std::exception_ptr loop_failure_;
  std::map<std::string_view, const graph::FunctionDef*> library_;
  std::map<std::string, std::shared_ptr<const Plan>> functions_;
  // Functions that are being made ready: one that is met again calls itself.
  std::set<std::string> open_;
};

}  // namespace muster::executor
