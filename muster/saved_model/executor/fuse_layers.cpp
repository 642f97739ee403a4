// Rewrites a plan when a model is loaded: a Conv2D or MatMul with constant weights and what follows
// it (bias, batch norm, products and sums with constants, a sum with another tensor, ReLU) become
// one step, and a Pad before it as well.
#include <ATen/Functions.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "muster/saved_model/executor/fold_batch_norm_internal.h"
#include "muster/saved_model/executor/fused_layer_internal.h"
#include "muster/saved_model/executor/plan_internal.h"

namespace muster::executor {
namespace {

// Weights of few outputs are laid out with zeros beside them. What would take more bytes than this
// stays with libtorch, unless it takes no more than twice what the weights do.
constexpr std::int64_t kMaxPaddedBytes = std::int64_t{1} << 20;

bool is_batch_norm(std::string_view op) { return op.starts_with("FusedBatchNorm"); }
bool is_sum(std::string_view op) { return op == "Add" || op == "AddV2"; }

}  // namespace

bool may_be_fused(std::string_view op) {
  return op == "Conv2D" || op == "MatMul" || op == "Pad" || op == "BiasAdd" || op == "Mul" ||
         op == "Sub" || op == "Relu" || is_sum(op) || is_batch_norm(op) || may_be_chained(op);
}

/// Finds layers in the steps of a plan and puts one step instead of each.
class LayerFusion {
 public:
  LayerFusion(Plan& plan, LaidOutLayers& layers, Budget& load)
      : plan_(plan), layers_(layers), load_(load), users_(plan.steps_.size() + 1) {
    for (std::size_t i = 0; i < plan_.steps_.size(); ++i) {
      for (const auto& source : plan_.steps_[i].inputs) {
        if (source.place != Plan::kFolded) users_[source.place].push_back({i, source.output});
      }
    }
    for (const auto& fetch : plan_.fetches_) {
      if (fetch.place != Plan::kFolded) users_[fetch.place].push_back({kFetch, fetch.output});
    }
    gone_.resize(plan_.steps_.size(), false);
  }

  void run() {
    for (std::size_t i = 0; i < plan_.steps_.size(); ++i) {
      if (!gone_[i]) fuse(i);
    }
    remove_gone();
  }

 private:
  using Source = Plan::Source;
  using Step = Plan::Step;
  static constexpr std::size_t kFetch = static_cast<std::size_t>(-1);

  struct User {
    std::size_t step = 0;
    std::size_t output = 0;
  };

  /// A layer while it is put together.
  struct Draft {
    FusedLayer layer{};
    /// The steps in it, in their order, and the inputs of the one that takes their place.
    std::vector<std::size_t> steps{};
    std::vector<Source> inputs{};
    at::Tensor filter{};
    ChannelLine line;
    /// Weights and steps applied to the line: the same weights with the same steps are laid out
    /// once.
    std::string key{};

    std::int64_t rank() const { return layer.window ? 4 : 2; }
  };

  const at::Tensor* constant(const Source& source) const {
    if (source.place != Plan::kFolded) return nullptr;
    const auto* tensor = std::get_if<at::Tensor>(&plan_.folded_[source.output]);
    const bool fits = tensor != nullptr && tensor->defined() && tensor->is_cpu() &&
                      tensor->scalar_type() == at::kFloat && tensor->numel() > 0;
    return fits ? tensor : nullptr;
  }

  // A constant of one element for every output, or of one alone.
  const at::Tensor* line_constant(const Draft& draft, const Source& source) const {
    const at::Tensor* values = constant(source);
    if (values == nullptr || values->dim() > draft.rank()) return nullptr;
    const std::int64_t outputs = draft.filter.size(draft.filter.dim() - 1);
    const bool fits =
        values->numel() == 1 || (values->numel() == outputs && values->size(-1) == outputs);
    return fits ? values : nullptr;
  }

  // The step that reads what this one gives, if nothing else does and it is all that is read.
  std::optional<std::size_t> only_user(std::size_t step) const {
    const auto& users = users_[step + 1];
    if (users.size() != 1 || users[0].output != 0 || users[0].step == kFetch) return std::nullopt;
    return users[0].step;
  }

  void fuse(std::size_t i) {
    std::optional<Draft> draft = begin(i);
    if (!draft) return;
    take_pad(*draft, i);
    std::size_t last = i;
    for (auto user = only_user(last); user && take(*draft, *user, last); user = only_user(last)) {
      last = *user;
    }
    if (!lay_out(*draft)) return;
    Step& place = plan_.steps_[last];
    for (const std::size_t step : draft->steps) gone_[step] = step != last;
    place.op = draft->layer.window ? "FusedConv2D" : "FusedMatMul";
    place.inputs = std::move(draft->inputs);
    place.layer = std::make_shared<const FusedLayer>(std::move(draft->layer));
    place.kernel = fused_layer_kernel(place.layer);
    place.names_its_errors = true;
  }

  // A convolution or product that can be the beginning of a layer.
  std::optional<Draft> begin(std::size_t i) const {
    const Step& step = plan_.steps_[i];
    if ((step.op != "Conv2D" && step.op != "MatMul") || step.inputs.size() != 2) {
      return std::nullopt;
    }
    const at::Tensor* weights = constant(step.inputs[1]);
    const bool is_convolution = step.op == "Conv2D";
    if (weights == nullptr || weights->dim() != (is_convolution ? 4 : 2)) return std::nullopt;
    at::Tensor filter = *weights;
    FusedLayer layer;
    if (is_convolution) {
      layer.window = Window(*step.node);
      layer.filter_sizes = {filter.size(0), filter.size(1)};
      if (layer.window->layout != Layout::kChannelsLast ||
          layer.window->dilations != std::vector<std::int64_t>{1, 1}) {
        return std::nullopt;
      }
    } else {
      if (graph::attr_or<bool>(*step.node, "transpose_a", false)) return std::nullopt;
      if (graph::attr_or<bool>(*step.node, "transpose_b", false)) filter = filter.t();
    }
    const std::int64_t outputs = filter.size(-1);
    Draft draft{.layer = std::move(layer), .filter = filter, .line = ChannelLine(outputs)};
    draft.key = fmt::format("{} {} {}", fmt::ptr(filter.data_ptr()), fmt::join(filter.sizes(), ","),
                            fmt::join(filter.strides(), ","));
    add_node(draft, i, kFetch);
    return draft;
  }

  // Makes a step a node of the draft; `previous` is the step whose value it continues with.
  void add_node(Draft& draft, std::size_t i, std::size_t previous) const {
    const Step& step = plan_.steps_[i];
    FusedNode node{.name = step.name, .op = step.op, .kernel = step.kernel};
    for (const Source& source : step.inputs) {
      if (previous != kFetch && source.place == previous + 1) {
        node.inputs.push_back(FusedNode::kPrevious);
        continue;
      }
      node.inputs.push_back(draft.inputs.size());
      draft.inputs.push_back(source);
    }
    draft.layer.nodes.push_back(std::move(node));
    draft.steps.push_back(i);
  }

  // A Pad that only this convolution reads.
  void take_pad(Draft& draft, std::size_t i) const {
    const Source& images = plan_.steps_[i].inputs[0];
    if (!draft.layer.window || draft.layer.window->padding.kind() != "VALID" ||
        images.place == Plan::kFolded || images.place == 0) {
      return;
    }
    const std::size_t before = images.place - 1;
    const Step& step = plan_.steps_[before];
    if (step.op != "Pad" || gone_[before] || step.inputs.size() != 2 || only_user(before) != i) {
      return;
    }
    const auto amounts = pad_amounts(step.inputs[1]);
    if (!amounts) return;
    Draft with{.layer = draft.layer, .filter = draft.filter, .line = draft.line, .key = draft.key};
    with.layer.nodes.clear();
    with.layer.main = 1;
    with.layer.padding = *amounts;
    add_node(with, before, kFetch);
    add_node(with, i, before);
    draft = std::move(with);
  }

  // Above, below, left and right, where nothing else is padded.
  std::optional<std::vector<std::int64_t>> pad_amounts(const Source& source) const {
    if (source.place != Plan::kFolded) return std::nullopt;
    const auto* tensor = std::get_if<at::Tensor>(&plan_.folded_[source.output]);
    if (tensor == nullptr || !tensor->is_cpu() || tensor->sizes() != at::IntArrayRef({4, 2}) ||
        !at::isIntegralType(tensor->scalar_type(), /*includeBool=*/false)) {
      return std::nullopt;
    }
    const at::Tensor wide = tensor->to(at::kLong).contiguous();
    const auto* all = wide.data_ptr<std::int64_t>();
    const bool fits = all[0] == 0 && all[1] == 0 && all[6] == 0 && all[7] == 0 &&
                      std::all_of(all, all + 8, [](auto amount) {
                        return amount >= 0 && amount <= kMaxElements;
                      });
    return fits ? std::optional(std::vector(all + 2, all + 6)) : std::nullopt;
  }

  // Makes the step a part of the draft, if it can be one.
  bool take(Draft& draft, std::size_t i, std::size_t previous) const {
    const Step& step = plan_.steps_[i];
    if (gone_[i] || step.names_its_errors || draft.layer.relu || !step.node) return false;
    if (step.op == "Relu") {
      draft.layer.relu = true;
    } else if (draft.layer.addend ||
               (!take_line(draft, step, previous) && !take_addend(draft, step, previous))) {
      return false;
    }
    add_node(draft, i, previous);
    return true;
  }

  bool take_line(Draft& draft, const Step& step, std::size_t previous) const {
    if (is_batch_norm(step.op)) return take_batch_norm(draft, step, previous);
    if (step.inputs.size() != 2) return false;
    const bool is_first = step.inputs[0].place == previous + 1;
    const at::Tensor* values = line_constant(draft, step.inputs[is_first ? 1 : 0]);
    if (values == nullptr) return false;
    if (step.op == "BiasAdd") {
      // Adds a vector to the last axis.
      if (!is_first || values->dim() != 1 || layout_of(*step.node) != Layout::kChannelsLast ||
          values->numel() != draft.filter.size(draft.filter.dim() - 1)) {
        return false;
      }
      draft.line.add(*values);
    } else if (is_sum(step.op)) {
      draft.line.add(*values);
    } else if (step.op == "Sub" && is_first) {
      draft.line.subtract(*values);
    } else if (step.op == "Mul") {
      draft.line.multiply(*values);
    } else {
      return false;
    }
    draft.key += fmt::format(" {} {} {}", step.op, fmt::ptr(values->data_ptr()), values->numel());
    return true;
  }

  bool take_batch_norm(Draft& draft, const Step& step, std::size_t previous) const {
    if (!draft.layer.window || step.inputs.size() != 5 || step.inputs[0].place != previous + 1 ||
        layout_of(*step.node) != Layout::kChannelsLast) {
      return false;
    }
    // No step may read the mean and variance that it gives as well.
    const auto place = static_cast<std::size_t>(&step - plan_.steps_.data()) + 1;
    for (const User& user : users_[place]) {
      if (user.output != 0) return false;
    }
    std::array<at::Tensor, 4> of{};
    const auto epsilon = graph::attr_or<float>(*step.node, "epsilon", 0.0001F);
    std::string key = fmt::format(" {} {}", step.op, epsilon);
    for (std::size_t i = 0; i < of.size(); ++i) {
      const at::Tensor* values = constant(step.inputs[i + 1]);
      if (values == nullptr || values->dim() != 1 || values->numel() != draft.filter.size(3)) {
        return false;
      }
      of[i] = *values;
      key += fmt::format(" {}", fmt::ptr(values->data_ptr()));
    }
    draft.line.normalise(of[0], of[1], of[2], of[3], epsilon);
    draft.key += key;
    return true;
  }

  bool take_addend(Draft& draft, const Step& step, std::size_t previous) const {
    if (!is_sum(step.op) || step.inputs.size() != 2) return false;
    const Source& other = step.inputs[step.inputs[0].place == previous + 1 ? 1 : 0];
    if (other.place == Plan::kFolded) return false;
    // The input that add_node() is about to add.
    draft.layer.addend = draft.inputs.size();
    return true;
  }

  // Gives the draft its weights; false where they are better left as they are.
  bool lay_out(Draft& draft) const {
    try {
      const at::Tensor& filter = draft.filter;
      const std::int64_t bytes =
          kernels::InferenceConvolution::laid_out_bytes(filter.numel(), filter.size(-1));
      const std::int64_t given = filter.numel() * static_cast<std::int64_t>(sizeof(float));
      if (bytes > kMaxPaddedBytes && bytes > 2 * given) return false;
      load_.begin_operation();
      // Beside them, the scaled weights in double precision.
      load_.check_room(bytes + 4 * given);
      draft.layer.weights = layers_.get(draft.key, [&] {
        const at::Tensor scaled = draft.line.scaled(filter);
        return std::make_shared<const kernels::InferenceConvolution>(
            draft.layer.window ? scaled : scaled.unsqueeze(0).unsqueeze(0), draft.line.offset());
      });
      return true;
    } catch (const std::exception&) {
      return false;  // The graph runs as it is; run() has limits of its own.
    }
  }

  void remove_gone() {
    std::vector<std::size_t> place_of(plan_.steps_.size() + 1, 0);
    std::vector<Step> left;
    for (std::size_t i = 0; i < plan_.steps_.size(); ++i) {
      if (gone_[i]) continue;
      left.push_back(std::move(plan_.steps_[i]));
      place_of[i + 1] = left.size();
    }
    const auto move = [&](Source& source) {
      if (source.place != Plan::kFolded) source.place = place_of[source.place];
    };
    for (Step& step : left) {
      std::ranges::for_each(step.inputs, move);
      // Without Switch nodes nothing is dead, and the order is that of the steps.
      step.controls.clear();
    }
    std::ranges::for_each(plan_.fetches_, move);
    plan_.steps_ = std::move(left);
    plan_.set_releases();
  }

  Plan& plan_;
  LaidOutLayers& layers_;
  Budget& load_;
  // By place: who reads it.
  std::vector<std::vector<User>> users_;
  std::vector<bool> gone_;
};

void Plan::fuse(LaidOutLayers& layers, Budget& load) {
  if (!device_.is_cpu() || has_dead_) return;
  LayerFusion(*this, layers, load).run();
  fuse_chains();
}

}  // namespace muster::executor
