#include "muster/saved_model/executor/captured_plan_internal.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "muster/base/log.h"
#include "muster/saved_model/executor/device_ops_internal.h"
#include "muster/saved_model/executor/in_node_internal.h"
#include "muster/saved_model/executor/plan_frame_internal.h"

namespace muster::executor {
namespace {

/// Libraries choose kernels and take memory in the first runs, which cannot be captured.
constexpr std::int64_t kWarmUpRuns = 2;

/// Shapes, axes: of more elements no operation wants to know them on the host.
constexpr std::int64_t kMaxHostElements = 1024;

bool is_numbers(const graph::NodeDef& node) {
  return std::ranges::none_of(node.attrs, [](const auto& attr) {
    const auto* type = std::get_if<graph::DataType>(&attr.second.value);
    return type != nullptr && (graph::without_ref(*type) == graph::DataType::kString ||
                               *type == graph::DataType::kResource);
  });
}

// The host looks at the divisors, and at powers.
bool divides_whole_numbers(const graph::NodeDef& node) {
  if (node.op != "Div" && node.op != "FloorDiv" && node.op != "FloorMod" && node.op != "Pow") {
    return false;
  }
  const auto type = graph::attr_or<graph::DataType>(node, "T", graph::DataType::kFloat);
  return !at::isFloatingType(scalar_type(type));
}

bool is_cast_to_floats(const graph::NodeDef& node) {
  if (node.op != "Cast") return false;
  const auto type = graph::attr_or<graph::DataType>(node, "DstT", graph::DataType::kInvalid);
  return type != graph::DataType::kInt32 && type != graph::DataType::kInt64;
}

at::Tensor on_host(const at::Tensor& tensor) { return tensor.is_cpu() ? tensor : tensor.cpu(); }

}  // namespace

/// Which steps come before the captured ones, are captured, and come after them.
class CapturedPlan::Phases {
 public:
  enum Phase : char { kBefore, kCaptured, kAfter };

  explicit Phases(const Plan& plan)
      : plan_(plan),
        phases_(plan.steps_.size(), kAfter),
        is_whole_(plan.steps_.size(), false),
        ops_(plan.steps_.size(), nullptr) {
    for (std::size_t i = 0; i < plan.steps_.size(); ++i) {
      const auto& step = plan.steps_[i];
      if (step.node != nullptr && is_numbers(*step.node)) ops_[i] = find_device_op(step.op);
    }
    for (std::size_t i = 0; i < plan.steps_.size(); ++i) is_whole_[i] = is_whole(i);
    for (std::size_t i = 0; i < plan.steps_.size(); ++i) {
      if (is_whole_[i] || ops_[i] == nullptr) continue;
      if (divides_whole_numbers(*plan.steps_[i].node)) ops_[i] = nullptr;
    }
    const auto needed = needed_by_products();
    for (std::size_t i = 0; i < plan.steps_.size(); ++i) {
      phases_[i] = needed[i] ? kBefore : phase_of(i);
    }
  }

  bool has_heavy() const {
    for (std::size_t i = 0; i < phases_.size(); ++i) {
      if (phases_[i] == kCaptured && ops_[i]->is_heavy) return true;
    }
    return false;
  }
  std::size_t count(Phase phase) const {
    return static_cast<std::size_t>(std::ranges::count(phases_, phase));
  }
  std::vector<std::size_t> order() const {
    std::vector<std::size_t> order(phases_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return phases_[i]; });
    return order;
  }
  // Whether the host computes the step: whole numbers, made of shapes alone.
  bool is_host_work(std::size_t i) const { return is_whole_[i] && !ops_[i]->is_shape; }

 private:
  template <typename Test>
  bool any_input(std::size_t i, const Test& test) const {
    return std::ranges::any_of(plan_.steps_[i].inputs, [&](const Source& source) {
      return source.place != Plan::kFolded && source.place != 0 && test(source.place - 1);
    });
  }

  // Steps that cannot be captured and that a product or convolution needs, with all that they need.
  std::vector<bool> needed_by_products() const {
    std::vector<bool> leads_to_product(phases_.size(), false);
    std::vector<bool> needed(phases_.size(), false);
    for (std::size_t i = phases_.size(); i-- > 0;) {
      if (ops_[i] != nullptr && ops_[i]->is_heavy) leads_to_product[i] = true;
      if (ops_[i] == nullptr && leads_to_product[i]) needed[i] = true;
      for (const Source& source : plan_.steps_[i].inputs) {
        if (source.place == Plan::kFolded || source.place == 0) continue;
        if (leads_to_product[i]) leads_to_product[source.place - 1] = true;
        if (needed[i]) needed[source.place - 1] = true;
      }
    }
    return needed;
  }

  // Whether the step gives whole numbers, made of shapes alone, that stay with the host.
  bool is_whole(std::size_t i) const {
    if (ops_[i] == nullptr) return false;
    if (ops_[i]->is_shape) return true;
    const auto& step = plan_.steps_[i];
    bool reads_one = false;
    for (const Source& source : step.inputs) {
      if (source.place == Plan::kFolded) continue;
      if (source.place == 0 || !is_whole_[source.place - 1]) return false;
      reads_one = true;
    }
    return reads_one && !is_cast_to_floats(*step.node);
  }

  Phase phase_of(std::size_t i) const {
    if (any_input(i, [&](std::size_t from) { return phases_[from] == kAfter; })) return kAfter;
    const bool reads_captured =
        any_input(i, [&](std::size_t from) { return phases_[from] == kCaptured; });
    if (ops_[i] == nullptr) return reads_captured ? kAfter : kBefore;
    if (is_whole_[i] && !reads_captured) return kBefore;
    // A shape that is computed of values on the device cannot be read there.
    const auto& inputs = plan_.steps_[i].inputs;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!ops_[i]->is_read_by_host(k, inputs.size())) continue;
      const Source& source = inputs[k];
      if (source.place == Plan::kFolded || source.place == 0) continue;
      if (phases_[source.place - 1] == kCaptured && !is_whole_[source.place - 1]) return kAfter;
    }
    return kCaptured;
  }

  const Plan& plan_;
  std::vector<Phase> phases_;
  std::vector<bool> is_whole_;
  std::vector<const DeviceOp*> ops_;
};

CapturedPlan::CapturedPlan(Plan plan, Options options)
    : plan_(std::move(plan)), options_(std::move(options)), stream_(options_.device) {
  if (plan_.has_dead_) {
    obstacle_ = "it has conditionals of TensorFlow 1";
  } else if (plan_.may_assign()) {
    obstacle_ = "it calls functions or assigns to variables";
  } else {
    const Phases phases(plan_);
    if (!phases.has_heavy()) {
      obstacle_ = "it has no product or convolution that can be captured";
    } else {
      const auto order = phases.order();
      for (const std::size_t i : order) is_host_work_.push_back(phases.is_host_work(i));
      plan_.reorder(order);
      begin_ = phases.count(Phases::kBefore);
      end_ = begin_ + phases.count(Phases::kCaptured);
      move_constants();
      find_boundaries();
    }
  }
  for (auto& step : plan_.steps_) step.node.reset();
}

bool CapturedPlan::is_read_by_host(std::size_t i, std::size_t operand) const {
  const auto& step = plan_.steps_[i];
  return is_host_work_[i] || find_device_op(step.op)->is_read_by_host(operand, step.inputs.size());
}

// Whole numbers that the device computes with are there before, where it would put them in every
// run.
void CapturedPlan::move_constants() {
  std::map<std::size_t, std::size_t> moved;
  for (std::size_t i = begin_; i < end_; ++i) {
    auto& inputs = plan_.steps_[i].inputs;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].place != Plan::kFolded || is_read_by_host(i, k)) continue;
      const auto* tensor = std::get_if<at::Tensor>(&plan_.folded_[inputs[k].output]);
      if (tensor == nullptr || tensor->device() == options_.device) continue;
      const auto [place, is_new] = moved.try_emplace(inputs[k].output, plan_.folded_.size());
      if (is_new) plan_.folded_.emplace_back(tensor->to(options_.device));
      inputs[k].output = place->second;
    }
  }
}

std::size_t CapturedPlan::boundary(const Source& source, bool is_read_by_host) {
  for (std::size_t i = 0; i < boundaries_.size(); ++i) {
    const Boundary& known = boundaries_[i];
    if (known.source.place == source.place && known.source.output == source.output &&
        known.is_read_by_host == is_read_by_host) {
      return i;
    }
  }
  boundaries_.push_back({source, is_read_by_host});
  return boundaries_.size() - 1;
}

void CapturedPlan::find_boundaries() {
  const auto is_captured = [&](const Source& source) {
    return source.place != Plan::kFolded && source.place > begin_ && source.place <= end_;
  };
  for (std::size_t i = begin_; i < end_; ++i) {
    const auto& inputs = plan_.steps_[i].inputs;
    std::vector<std::size_t>& of_step = boundary_of_.emplace_back();
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const bool is_inside = inputs[k].place == Plan::kFolded || is_captured(inputs[k]);
      of_step.push_back(is_inside ? kInside : boundary(inputs[k], is_read_by_host(i, k)));
    }
  }
  const auto need = [&](const Source& source) {
    if (!is_captured(source)) return;
    const bool is_known = std::ranges::any_of(outputs_, [&](const Source& known) {
      return known.place == source.place && known.output == source.output;
    });
    if (!is_known) outputs_.push_back(source);
  };
  for (std::size_t i = end_; i < plan_.steps_.size(); ++i) {
    std::ranges::for_each(plan_.steps_[i].inputs, need);
  }
  std::ranges::for_each(plan_.fetches_, need);
}

std::string CapturedPlan::obstacle() const {
  const std::lock_guard lock(mutex_);
  return obstacle_;
}

std::size_t CapturedPlan::graphs() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(
      graphs_, [](const auto& item) { return static_cast<bool>(item.second.replay); }));
}

// Types and shapes, and the values that the host reads. Empty where they cannot be captured.
std::string CapturedPlan::key_of(const std::vector<at::Tensor>& values) const {
  std::string key;
  const auto add = [&](const void* bytes, std::size_t size) {
    key.append(static_cast<const char*>(bytes), size);
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const at::Tensor& value = values[i];
    if (!value.defined()) return {};
    const std::int64_t rank = value.dim();
    const auto type = value.scalar_type();
    add(&type, sizeof type);
    add(&rank, sizeof rank);
    add(value.sizes().data(), value.sizes().size() * sizeof(std::int64_t));
    if (!boundaries_[i].is_read_by_host) continue;
    if (!value.is_cpu() || value.numel() > kMaxHostElements) return {};
    const at::Tensor whole = value.contiguous();
    add(whole.data_ptr(), whole.nbytes());
  }
  return key;
}

CapturedPlan::Graph& CapturedPlan::graph_for(const std::string& key) {
  const auto found = graphs_.find(key);
  if (found == graphs_.end() && graphs_.size() >= std::max<std::size_t>(options_.max_graphs, 1)) {
    graphs_.erase(std::ranges::min_element(graphs_, {},
                                           [](const auto& item) { return item.second.last_used; }));
  }
  Graph& graph = found == graphs_.end() ? graphs_[key] : found->second;
  graph.last_used = ++runs_;
  return graph;
}

std::vector<at::Tensor> CapturedPlan::run_captured(const std::vector<at::Tensor>& inputs) const {
  Budget budget(options_.limits);
  Plan::Frame frame(plan_, {}, budget);
  Slots given;
  for (std::size_t i = begin_; i < end_; ++i) {
    const auto& step = plan_.steps_[i];
    given.clear();
    for (std::size_t k = 0; k < step.inputs.size(); ++k) {
      const std::size_t from = boundary_of_[i - begin_][k];
      given.push_back(from == kInside ? frame.at(step.inputs[k]) : Slot(inputs[from]));
    }
    in_node(step.name, step.op, [&] { frame.set(i + 1, plan_.run_step(step, given, budget)); });
    for (const std::size_t place : step.release) {
      if (place > begin_) frame.release(place);
    }
  }
  std::vector<at::Tensor> outputs;
  for (const Source& source : outputs_) {
    const auto* tensor = std::get_if<at::Tensor>(&frame.at(source));
    if (tensor == nullptr) throw Internal("{} gave no tensor", plan_.steps_[source.place - 1].name);
    outputs.push_back(*tensor);
  }
  return outputs;
}

bool CapturedPlan::capture(Graph& graph, const std::vector<at::Tensor>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const at::Tensor& value = values[i];
    if (boundaries_[i].is_read_by_host) {
      graph.inputs.push_back(value.clone());
      graph.staged.emplace_back();
      continue;
    }
    const auto options = at::TensorOptions().dtype(value.scalar_type()).device(options_.device);
    graph.inputs.push_back(at::zeros(value.sizes(), options));
    graph.staged.push_back(
        value.is_cpu() ? empty_for_copies(value.sizes(), value.scalar_type(), options_.device)
                       : at::Tensor());
  }
  const auto work = [this, &graph] { graph.outputs = run_captured(graph.inputs); };
  if (options_.device.is_cuda()) {
    const auto captured = std::make_shared<CapturedWork>(options_.device);
    if (const auto reason = captured->capture(work)) {
      obstacle_ = *reason;
      graphs_.clear();
      log::warning("{} is not captured as a CUDA graph, and runs slower: {}", options_.name,
                   obstacle_);
      return false;
    }
    graph.replay = [captured] { captured->replay(); };
  } else {
    work();
    graph.replay = work;
  }
  for (const at::Tensor& output : graph.outputs) {
    graph.results.push_back(
        empty_for_copies(output.sizes(), output.scalar_type(), options_.device));
  }
  log::info("{} is captured as a CUDA graph: steps={} inputs={} outputs={} graphs={}",
            options_.name, captured_steps(), boundaries_.size(), outputs_.size(), graphs_.size());
  return true;
}

void CapturedPlan::replay(Graph& graph, const std::vector<at::Tensor>& values, Plan::Frame& frame,
                          Budget& budget) {
  budget.begin_operations(static_cast<std::int64_t>(captured_steps()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (boundaries_[i].is_read_by_host) continue;
    if (graph.staged[i].defined() && values[i].is_cpu()) {
      graph.staged[i].copy_(values[i]);
      graph.inputs[i].copy_(graph.staged[i], /*non_blocking=*/true);
    } else {
      graph.inputs[i].copy_(values[i], /*non_blocking=*/true);
    }
  }
  graph.replay();
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    graph.results[i].copy_(graph.outputs[i], /*non_blocking=*/true);
  }
  stream_.wait();
  for (std::size_t i = begin_; i < end_; ++i) {
    for (const std::size_t place : plan_.steps_[i].release) frame.release(place);
  }
  std::map<std::size_t, Slots> outputs;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    Slots& slots = outputs[outputs_[i].place];
    if (slots.size() <= outputs_[i].output) slots.resize(outputs_[i].output + 1);
    // The next replay writes to graph.results.
    at::Tensor own = at::empty(graph.results[i].sizes(), graph.results[i].scalar_type());
    own.copy_(graph.results[i]);
    slots[outputs_[i].output] = std::move(own);
  }
  for (auto& [place, slots] : outputs) {
    budget.hold(slots, {});
    frame.set(place, std::move(slots));
  }
}

Slots CapturedPlan::run(Slots arguments, Budget& budget) {
  const std::lock_guard lock(mutex_);
  const OwnStream::Use use(stream_);
  Plan::Frame frame(plan_, std::move(arguments), budget);
  plan_.run_steps(frame, 0, begin_, budget);
  std::vector<at::Tensor> values;
  for (const Boundary& boundary : boundaries_) {
    const auto* tensor = std::get_if<at::Tensor>(&frame.at(boundary.source));
    values.push_back(tensor == nullptr ? at::Tensor() : *tensor);
  }
  const std::string key = obstacle_.empty() ? key_of(values) : std::string();
  Graph* const graph = key.empty() ? nullptr : &graph_for(key);
  const bool is_ready =
      graph != nullptr && ++graph->runs > kWarmUpRuns && (graph->replay || capture(*graph, values));
  if (is_ready) {
    replay(*graph, values, frame, budget);
  } else {
    plan_.run_steps(frame, begin_, end_, budget);
  }
  plan_.run_steps(frame, end_, plan_.steps_.size(), budget);
  Slots results = frame.finish();
  for (Slot& slot : results) {
    if (auto* tensor = std::get_if<at::Tensor>(&slot)) *tensor = on_host(*tensor);
  }
  stream_.wait();
  return results;
}

}  // namespace muster::executor
