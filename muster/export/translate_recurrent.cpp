// Recurrent layers, step by step: the number of steps is a size of the graph, so every engine that
// has matrix products runs it (docs/decisions/0078-recurrent-layers-are-unrolled.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;
using graph::TensorValue;

enum class CellKind { kLstm, kGru, kTanh, kRelu };

// A cell is about ten nodes. More of them than this take longer to load than they are worth.
constexpr std::int64_t kMostCells = 8192;
const Order kSwappedAxes{1, 0};
const Order kStepsFirst{1, 0, 2};

std::int64_t gates_of(CellKind kind) {
  if (kind == CellKind::kLstm) return 4;
  return kind == CellKind::kGru ? 3 : 1;
}

std::string part_of(const std::string& node, std::size_t index) {
  return index == 0 ? node : fmt::format("{}:{}", node, index);
}

/// Nodes of the operations that cells are made of.
class CellNodes {
 public:
  explicit CellNodes(Call& call) : call_(call) {}

  std::string matmul(const std::string& a, const std::string& b) {
    return call_.to.add("MatMul", "MatMul", {a, b},
                        {{"T", call_.type()}, {"transpose_a", false}, {"transpose_b", false}});
  }
  std::string bias_add(const std::string& a, const std::string& bias) {
    return call_.to.add("BiasAdd", "BiasAdd", {a, bias},
                        {{"T", call_.type()}, {"data_format", "NHWC"}});
  }
  std::string apply(std::string_view op, std::vector<std::string> inputs) {
    return call_.node(op, std::move(inputs));
  }
  /// Equal parts along an axis.
  std::vector<std::string> split(const std::string& whole, std::int64_t parts, std::int64_t axis) {
    if (parts == 1) return {whole};
    return parts_of(call_.to.add("split", "Split", {call_.int32(axis), whole},
                                 {{"T", call_.type()}, {"num_split", parts}}),
                    parts);
  }
  /// Parts of these sizes along the last axis of a matrix.
  std::vector<std::string> split_columns(const std::string& whole,
                                         const std::vector<std::int64_t>& sizes) {
    const auto parts = static_cast<std::int64_t>(sizes.size());
    return parts_of(
        call_.to.add("split", "SplitV", {whole, call_.to.ints(sizes), call_.int32(1)},
                     {{"T", call_.type()}, {"num_split", parts}, {"Tlen", DataType::kInt32}}),
        parts);
  }
  std::string concat(std::vector<std::string> parts, std::int64_t axis) {
    if (parts.size() == 1) return parts[0];
    const auto count = static_cast<std::int64_t>(parts.size());
    parts.push_back(call_.int32(axis));
    return call_.to.add("concat", "ConcatV2", std::move(parts),
                        {{"N", count}, {"T", call_.type()}, {"Tidx", DataType::kInt32}});
  }
  std::string stack(std::vector<std::string> parts) {
    const auto count = static_cast<std::int64_t>(parts.size());
    return call_.to.add("stack", "Pack", std::move(parts),
                        {{"N", count}, {"T", call_.type()}, {"axis", 0}});
  }
  std::vector<std::string> unstack(ValueId id) {
    const Size count = call_.to.value(id).sizes.at(0);
    return parts_of(call_.to.add("unstack", "Unpack", {call_.to.get(id)},
                                 {{"T", call_.type()}, {"num", count.constant}, {"axis", 0}}),
                    count.constant);
  }
  std::string select(const std::string& mask, const std::string& yes, const std::string& no) {
    return call_.node("SelectV2", {mask, yes, no});
  }

 private:
  static std::vector<std::string> parts_of(const std::string& node, std::int64_t count) {
    std::vector<std::string> parts;
    parts.reserve(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    for (std::int64_t i = 0; i < count; ++i) {
      parts.push_back(part_of(node, static_cast<std::size_t>(i)));
    }
    return parts;
  }

  Call& call_;
};

/// Variables of one direction of a layer. No node: the layer does not have it.
struct CellWeights {
  std::string input{};
  std::string hidden{};
  std::string input_bias{};
  std::string hidden_bias{};
  std::string projection{};
  std::int64_t hidden_size = 0;
};

/// State that a direction carries from step to step; `cell` is that of an LSTM.
struct CellState {
  std::string hidden{};
  std::string cell{};
};

/// Part that the input adds to the gates of a step; `candidate` is the third gate of a GRU.
struct StepInput {
  std::string gates{};
  std::string candidate{};
};

/// One step of a layer.
class Cell {
 public:
  Cell(Call& call, CellKind kind, CellWeights weights)
      : nodes_(call), kind_(kind), weights_(std::move(weights)), one_(call.scalar(1)) {}

  /// The products of the input with the weights, for as many steps as it has rows of.
  std::string project(const std::string& input) {
    auto product = nodes_.matmul(input, weights_.input);
    if (weights_.input_bias.empty()) return product;
    // A GRU multiplies its hidden bias by a gate.
    const auto bias = kind_ == CellKind::kGru
                          ? weights_.input_bias
                          : nodes_.apply("AddV2", {weights_.input_bias, weights_.hidden_bias});
    return nodes_.bias_add(product, bias);
  }

  std::vector<StepInput> steps(const std::string& projected, std::int64_t count) {
    std::vector<StepInput> steps;
    if (kind_ != CellKind::kGru) {
      for (auto& gates : nodes_.split(projected, count, 0)) steps.push_back({std::move(gates), {}});
      return steps;
    }
    const std::int64_t size = weights_.hidden_size;
    const auto halves = nodes_.split_columns(projected, {2 * size, size});
    const auto gates = nodes_.split(halves[0], count, 0);
    const auto candidates = nodes_.split(halves[1], count, 0);
    for (std::size_t i = 0; i < gates.size(); ++i) steps.push_back({gates[i], candidates[i]});
    return steps;
  }

  CellState next(const StepInput& input, const CellState& state) {
    if (kind_ == CellKind::kLstm) return next_lstm(input, state);
    if (kind_ == CellKind::kGru) return next_gru(input, state);
    const auto sum =
        nodes_.apply("AddV2", {nodes_.matmul(state.hidden, weights_.hidden), input.gates});
    return {.hidden = nodes_.apply(kind_ == CellKind::kTanh ? "Tanh" : "Relu", {sum})};
  }

 private:
  // The gates are input, forget, cell, output.
  CellState next_lstm(const StepInput& input, const CellState& state) {
    const auto sum =
        nodes_.apply("AddV2", {nodes_.matmul(state.hidden, weights_.hidden), input.gates});
    const auto gates = nodes_.split(sum, 4, 1);
    const auto sigmoid = [&](std::size_t gate) { return nodes_.apply("Sigmoid", {gates[gate]}); };
    const auto kept = nodes_.apply("Mul", {sigmoid(1), state.cell});
    const auto added = nodes_.apply("Mul", {sigmoid(0), nodes_.apply("Tanh", {gates[2]})});
    CellState next{.cell = nodes_.apply("AddV2", {kept, added})};
    next.hidden = nodes_.apply("Mul", {sigmoid(3), nodes_.apply("Tanh", {next.cell})});
    if (!weights_.projection.empty()) {
      next.hidden = nodes_.matmul(next.hidden, weights_.projection);
    }
    return next;
  }

  // The gates are reset, update and the candidate.
  CellState next_gru(const StepInput& input, const CellState& state) {
    auto product = nodes_.matmul(state.hidden, weights_.hidden);
    if (!weights_.hidden_bias.empty()) product = nodes_.bias_add(product, weights_.hidden_bias);
    const std::int64_t size = weights_.hidden_size;
    const auto hidden = nodes_.split_columns(product, {2 * size, size});
    const auto gates = nodes_.split(
        nodes_.apply("Sigmoid", {nodes_.apply("AddV2", {hidden[0], input.gates})}), 2, 1);
    const auto candidate = nodes_.apply(
        "Tanh",
        {nodes_.apply("AddV2", {input.candidate, nodes_.apply("Mul", {gates[0], hidden[1]})})});
    const auto kept = nodes_.apply("Mul", {gates[1], state.hidden});
    const auto left = nodes_.apply("Sub", {one_, gates[1]});
    return {.hidden = nodes_.apply("AddV2", {nodes_.apply("Mul", {left, candidate}), kept})};
  }

  CellNodes nodes_;
  CellKind kind_;
  CellWeights weights_;
  std::string one_;
};

/// The weights from `first` on in a list: input, hidden, and where there are, two biases and a
/// projection.
CellWeights weights_from(Call& call, const std::vector<ValueId>& list, std::size_t first,
                         std::size_t count, CellKind kind) {
  call.require(first + count <= list.size(), "it has fewer weights than layers");
  CellWeights weights;
  weights.input = call.to.get(list[first], kSwappedAxes);
  weights.hidden = call.to.get(list[first + 1], kSwappedAxes);
  weights.hidden_size = call.to.value(list[first + 1]).sizes.at(0).constant / gates_of(kind);
  if (count >= 4) {
    weights.input_bias = call.to.get(list[first + 2]);
    weights.hidden_bias = call.to.get(list[first + 3]);
  }
  if (count % 2 == 1) weights.projection = call.to.get(list[first + count - 1], kSwappedAxes);
  return weights;
}

/// A recurrent layer's arguments, in both forms that libtorch has: with a batch of sequences
/// (input, states, weights, ...) and with packed sequences (data, batch sizes, states, weights).
class Recurrence {
 public:
  Recurrence(Call& call, CellKind kind) : call_(call), nodes_(call), kind_(kind) {
    const bool lstm = kind == CellKind::kLstm;
    packed_ = call.is_tensor(1) && (lstm || call.is_tensor(2));
    const std::size_t states = packed_ ? 2 : 1;
    if (lstm) {
      for (const ValueId id : call.ids(states)) states_.push_back(nodes_.unstack(id));
      call.require(states_.size() == 2, "it has other states than hidden and cell");
    } else {
      states_.push_back(nodes_.unstack(call.id(states)));
    }
    weights_ = call.ids(states + 1);
    const bool biases = call.truth(states + 2);
    layers_ = call.integer(states + 3);
    directions_ = call.truth(states + 6) ? 2 : 1;
    read_steps(packed_ || call.truth(states + 7));
    const auto cells = static_cast<std::size_t>(layers_ * directions_);
    const bool whole = cells > 0 && weights_.size() % cells == 0;
    call.require(whole, "its weights are no whole layers");
    per_cell_ = whole ? weights_.size() / cells : 0;
    const std::size_t plain = biases ? 4 : 2;
    call.require(per_cell_ == plain || (lstm && per_cell_ == plain + 1),
                 fmt::format("it has {} weights a layer", per_cell_));
    for (const auto& all : states_) {
      call.require(all.size() == cells, "it has other states than layers");
    }
    call.require(steps_ * layers_ * directions_ <= kMostCells,
                 fmt::format("{} steps in {} layers and directions are more than the {} that a "
                             "graph may have",
                             steps_, cells, kMostCells));
  }

  void translate() {
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      std::vector<std::string> outputs;
      outputs.reserve(static_cast<std::size_t>(directions_));
      for (std::int64_t direction = 0; direction < directions_; ++direction) {
        outputs.push_back(run(layer * directions_ + direction, direction == 1));
      }
      flat_ = nodes_.concat(std::move(outputs), 1);
    }
    give();
  }

 private:
  void read_steps(bool batch_first) {
    batch_first_ = batch_first;
    if (packed_) {
      const PackedSteps& packed = call_.to.packed(call_.id(0));
      flat_ = packed.flat;
      lengths_ = packed.lengths;
      steps_ = packed.steps;
      rows_ = packed.rows;
      return;
    }
    const auto& sizes = call_.value(0).sizes;
    call_.require(sizes.size() == 3, "its input is no batch of sequences");
    const Size steps = sizes[batch_first ? 1 : 0];
    call_.require(!steps.follows_batch(), "the number of its steps follows the batch");
    call_.require(steps.constant > 0, "it has no steps");
    steps_ = steps.constant;
    rows_ = sizes[batch_first ? 0 : 1];
    flat_ = call_.reshaped(call_.tensor(0, batch_first ? kStepsFirst : Order{}),
                           {flat_rows(rows_, steps_), sizes[2]});
  }

  static Size flat_rows(const Size& rows, std::int64_t steps) {
    return {.constant = rows.constant * steps, .per_row = rows.per_row * steps};
  }

  // Whether each row still has a step, as [rows, 1]; all rows have the first.
  std::string has_step(std::int64_t step) {
    return call_.to.add(
        "Greater", "Greater",
        {lengths_, call_.to.constant(TensorValue::scalar(static_cast<std::int64_t>(step)))},
        {{"T", DataType::kInt64}});
  }

  // One direction of one layer: its outputs, step after step.
  std::string run(std::int64_t number, bool backwards) {
    const auto index = static_cast<std::size_t>(number);
    Cell cell(call_, kind_, weights_from(call_, weights_, index * per_cell_, per_cell_, kind_));
    const auto inputs = cell.steps(cell.project(flat_), steps_);
    CellState state{.hidden = states_[0][index]};
    if (states_.size() > 1) state.cell = states_[1][index];
    std::vector<std::string> outputs(inputs.size());
    for (std::int64_t i = 0; i < steps_; ++i) {
      const std::int64_t step = backwards ? steps_ - 1 - i : i;
      const auto place = static_cast<std::size_t>(step);
      CellState next = cell.next(inputs[place], state);
      outputs[place] = next.hidden;
      if (!lengths_.empty() && step > 0) {
        const auto mask = has_step(step);
        outputs[place] = nodes_.select(mask, next.hidden, call_.scalar(0));
        next.hidden = nodes_.select(mask, next.hidden, state.hidden);
        if (!next.cell.empty()) next.cell = nodes_.select(mask, next.cell, state.cell);
      }
      state = std::move(next);
    }
    last_hidden_.push_back(state.hidden);
    last_cell_.push_back(state.cell);
    return nodes_.concat(std::move(outputs), 0);
  }

  void give() {
    if (packed_) {
      call_.to.set_packed(
          call_.result_id(),
          {.flat = flat_, .lengths = lengths_, .steps = steps_, .rows = rows_, .masked = true});
    } else {
      const auto& sizes = call_.result().sizes;
      const auto whole = call_.reshaped(flat_, {Size{steps_}, rows_, sizes.at(2)});
      call_.give(whole, batch_first_ ? kStepsFirst : Order{});
    }
    call_.give_one(1, nodes_.stack(last_hidden_));
    if (kind_ == CellKind::kLstm) call_.give_one(2, nodes_.stack(last_cell_));
  }

  Call& call_;
  CellNodes nodes_;
  CellKind kind_;
  bool packed_ = false;
  bool batch_first_ = false;
  /// Hidden states of all layers and directions, and the cells of an LSTM.
  std::vector<std::vector<std::string>> states_;
  std::vector<ValueId> weights_;
  std::int64_t layers_ = 0;
  std::int64_t directions_ = 1;
  std::size_t per_cell_ = 0;
  /// [steps * rows, width]
  std::string flat_;
  /// int64 [rows, 1], where sequences are packed.
  std::string lengths_;
  std::int64_t steps_ = 0;
  Size rows_;
  std::vector<std::string> last_hidden_;
  std::vector<std::string> last_cell_;
};

template <CellKind kKind>
void recurrent_layer(Call& call) {
  Recurrence(call, kKind).translate();
}

// _pack_padded_sequence(input, lengths, batch_first): in a graph, sequences stay padded.
void pack_padded_sequence(Call& call) {
  const bool batch_first = call.truth(2);
  const auto& sizes = call.value(0).sizes;
  call.require(sizes.size() == 3, "its input is no batch of sequences");
  const Size steps = sizes[batch_first ? 1 : 0];
  call.require(!steps.follows_batch(), "the number of its steps follows the batch");
  const Size rows = sizes[batch_first ? 0 : 1];
  const Size flat{.constant = rows.constant * steps.constant,
                  .per_row = rows.per_row * steps.constant};
  const auto lengths = call.operand(1, at::kLong);
  call.to.set_packed(
      call.result_id(),
      {.flat = call.reshaped(call.tensor(0, batch_first ? kStepsFirst : Order{}), {flat, sizes[2]}),
       .lengths = call.to.add("ExpandDims", "ExpandDims", {lengths, call.int32(1)},
                              {{"T", DataType::kInt64}, {"Tdim", DataType::kInt32}}),
       .steps = steps.constant,
       .rows = rows});
}

// _pad_packed_sequence(data, batch sizes, batch_first, padding, total length)
void pad_packed_sequence(Call& call) {
  const PackedSteps packed = call.to.packed(call.id(0));
  const bool batch_first = call.truth(2);
  call.require(call.integer(4) == packed.steps,
               fmt::format("give it total_length = {}, the steps that were packed: without it the "
                           "number of steps follows the values",
                           packed.steps));
  CellNodes nodes(call);
  auto whole =
      call.reshaped(packed.flat, {Size{packed.steps}, packed.rows, call.result().sizes.at(2)});
  const double padding = call.number(3);
  if (padding != 0 || !packed.masked) {
    std::vector<std::int64_t> steps(static_cast<std::size_t>(packed.steps));
    std::iota(steps.begin(), steps.end(), std::int64_t{0});
    const auto numbers = call.to.constant(graph::TensorValue::of<std::int64_t>(
        {packed.steps, 1, 1}, std::span<const std::int64_t>(steps)));
    const auto mask =
        call.to.add("Greater", "Greater", {packed.lengths, numbers}, {{"T", DataType::kInt64}});
    whole = nodes.select(mask, whole, call.scalar(padding));
  }
  call.give(whole, batch_first ? kStepsFirst : Order{});
  if (call.results() > 1) {
    call.give_one(
        1, call.to.add("Squeeze", "Squeeze", {packed.lengths},
                       {{"T", DataType::kInt64},
                        {"squeeze_dims", graph::AttrValue::list(std::vector<std::int64_t>{1})}}));
  }
}

constexpr const char* kLayer = "MatMul, BiasAdd, Split, Sigmoid, Tanh, Mul, AddV2 a step, ConcatV2";

constexpr std::array kRecurrentTranslations{
    OpTranslation{"aten::_pack_padded_sequence", "Reshape", pack_padded_sequence},
    OpTranslation{"aten::_pad_packed_sequence", "Reshape, Greater, SelectV2", pad_packed_sequence},
    OpTranslation{"aten::gru", kLayer, recurrent_layer<CellKind::kGru>},
    OpTranslation{"aten::lstm", kLayer, recurrent_layer<CellKind::kLstm>},
    OpTranslation{"aten::rnn_relu", kLayer, recurrent_layer<CellKind::kRelu>},
    OpTranslation{"aten::rnn_tanh", kLayer, recurrent_layer<CellKind::kTanh>},
};

}  // namespace

std::span<const OpTranslation> recurrent_translations() { return kRecurrentTranslations; }

}  // namespace muster::exporting
