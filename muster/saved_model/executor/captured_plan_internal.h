#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "muster/nn/device/gpu.h"
#include "muster/saved_model/executor/plan_internal.h"

namespace muster::executor {

/// Runs a plan on a GPU. What the device computes without the host looking at values is captured as
/// a CUDA graph, one for each batch size (each set of shapes), and replayed from then on; strings,
/// tables and what depends on values is computed before or after it, as without. Bits are those of
/// the plan. May be called from any thread; one run at a time is on the device.
///
/// Everything that differs between two runs of one graph is given to it in the device's memory. So
/// a kernel that looks at such a value on the host makes the capture fail; it cannot keep the
/// value.
class CapturedPlan {
 public:
  struct Options {
    /// For logs.
    std::string name{};
    at::Device device{at::kCPU};
    RunLimits limits{};
    /// The graphs that are kept; the one that was not used for longest goes.
    std::size_t max_graphs = 16;
  };

  /// Takes a plan after fold() whose variables stay as they are, and puts it into another order. On
  /// the CPU, for tests, the captured steps are run again with the same inputs.
  CapturedPlan(Plan plan, Options options);

  /// Why nothing is captured; empty as long as something may be.
  std::string obstacle() const;
  /// As Plan::run(). Tensors among the results are in the memory of the host.
  Slots run(Slots arguments, Budget& budget);

  const Plan& plan() const { return plan_; }
  /// Steps that are captured together.
  std::size_t captured_steps() const { return end_ - begin_; }
  /// Batch sizes that are captured now.
  std::size_t graphs() const;

 private:
  using Source = Plan::Source;

  /// A value from outside of the captured steps that one of them reads.
  struct Boundary {
    Source source;
    bool is_read_by_host = false;
  };
  struct Graph {
    std::int64_t runs = 0;
    std::int64_t last_used = 0;
    /// By boundary. What the device reads, what is copied there from the host, and what the host
    /// has read.
    std::vector<at::Tensor> inputs{};
    std::vector<at::Tensor> staged{};
    /// Outputs that a replay writes, and the tensors on the host that they are copied to.
    std::vector<at::Tensor> outputs{};
    std::vector<at::Tensor> results{};
    /// Empty until it is captured.
    std::function<void()> replay{};
  };
  class Phases;

  bool is_read_by_host(std::size_t i, std::size_t operand) const;
  void find_boundaries();
  void move_constants();
  std::size_t boundary(const Source& source, bool is_read_by_host);
  std::string key_of(const std::vector<at::Tensor>& values) const;
  Graph& graph_for(const std::string& key);
  bool capture(Graph& graph, const std::vector<at::Tensor>& values);
  std::vector<at::Tensor> run_captured(const std::vector<at::Tensor>& inputs) const;
  void replay(Graph& graph, const std::vector<at::Tensor>& values, Plan::Frame& frame,
              Budget& budget);

  Plan plan_;
  const Options options_;
  std::string obstacle_;
  // The steps that are captured.
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  // By step: whether it computes shapes, with the host's whole numbers.
  std::vector<bool> is_host_work_;
  std::vector<Boundary> boundaries_;
  // For each captured step and input: the boundary that it is, or kInside.
  static constexpr std::size_t kInside = static_cast<std::size_t>(-1);
  std::vector<std::vector<std::size_t>> boundary_of_;
  // Outputs of the captured steps that later steps and the results need.
  std::vector<Source> outputs_;

  mutable std::mutex mutex_;
  OwnStream stream_;
  std::map<std::string, Graph> graphs_;
  std::int64_t runs_ = 0;
};

}  // namespace muster::executor
