#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/saved_model/executor/plan_internal.h"

namespace muster::executor {

/// A straight path from a baseline to a request through what a plan computes, with gradients on the
/// way.
///
/// It starts at leaves: inputs of floating-point numbers and, where words and whole numbers become
/// such, what they become: a row of a table, an embedding. Operations whose numbers jump make
/// leaves, too, of what comes out of them. What depends on no leaf is computed once. Belongs to one
/// thread.
class GradientPath {
 public:
  struct Request {
    /// In the order of the plan's arguments.
    std::vector<std::string> names{};
    Slots arguments{};
    /// The request to start from; without it all leaves are 0 there.
    std::optional<Slots> baseline{};
    /// Number of the output, and its name for errors.
    std::size_t fetch = 0;
    std::string output{};
  };

  struct Leaf {
    /// As Attribution has it.
    std::string feature{};
    /// Whether it is an input itself.
    bool is_argument = false;
    at::Tensor value{};
    at::Tensor baseline{};
  };

  /// Computes the request. Throws what the graph throws, InvalidArgument for a baseline whose
  /// leaves have other sizes, Unimplemented for a graph that cannot be explained: it names the
  /// node.
  GradientPath(const Plan& plan, Request request, Budget& budget);

  const std::vector<Leaf>& leaves() const { return leaves_; }
  /// Inputs that the output does not depend on.
  std::vector<std::string> unused() const;
  /// The output for the request, flat.
  const at::Tensor& output() const { return output_; }

  /// One number of the output at this part of the path; 0 is the baseline.
  double output_at(double part, std::int64_t index);
  /// Gradients of one number of the output there, one for each leaf, in its sizes.
  std::vector<at::Tensor> gradients_at(double part, std::int64_t index);

  Budget& budget() { return budget_; }

 private:
  // kFrozen: words, and whole numbers made of them. kPooled: numbers that may still become a leaf.
  // kSwitch: truths about numbers on the path. kSmooth: depends on leaves.
  enum class Kind : char { kFixed, kFrozen, kPooled, kSwitch, kSmooth };
  struct Mark {
    Kind kind = Kind::kFixed;
    // Numbers of the names, sorted.
    std::vector<std::size_t> origins{};
  };
  struct Reading;

  void mark_arguments();
  void record(std::size_t i);
  Reading reading_of(const Plan::Step& step) const;
  static bool is_on_path(const Plan::Step& step, const Reading& reading, const Slots& made);
  static Kind kind_of(const Plan::Step& step, const Reading& reading, bool is_float, bool on_path);
  void name_features(std::size_t i);
  void add_leaf(std::size_t place, std::size_t output);
  void add_pooled_leaves(const Plan::Step& step);
  void fetch(const Request& request);
  void set_baselines(Slots arguments);

  std::vector<Slots> moved_leaves(double part, std::vector<at::Tensor>* leaves) const;
  // Values that it makes are held until the caller releases them.
  at::Tensor run_again(std::vector<Slots>& values, std::vector<Slots>& held);
  at::Tensor number_of(const at::Tensor& output, std::int64_t index) const;
  const Slot& at(const std::vector<Slots>& values, const Plan::Source& source) const;
  Slots run_step(const Plan::Step& step, const std::vector<Slots>& values);
  std::string feature_of(const std::vector<std::size_t>& origins) const;

  const Plan& plan_;
  Budget& budget_;
  // By place, as the plan counts them.
  std::vector<Slots> values_;
  std::vector<std::vector<Mark>> marks_;
  std::vector<std::string> names_;
  std::size_t arguments_;
  // The steps that depend on leaves, in their order.
  std::vector<std::size_t> again_{};
  std::vector<Leaf> leaves_{};
  // Where they stand.
  std::vector<Plan::Source> leaf_sources_{};
  std::vector<bool> is_used_{};
  Plan::Source fetched_{};
  at::Tensor output_{};
};

}  // namespace muster::executor
