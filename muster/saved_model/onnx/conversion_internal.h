#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/saved_model/graph/freeze.h"
#include "muster/saved_model/onnx/model.h"

/// How a frozen graph becomes nodes of an ONNX model.
namespace muster::onnx {

/// How the axes of a value stand for those of TensorFlow's tensor: axis i of the value is axis
/// order[i] of the tensor. Empty: as in TensorFlow, of whatever rank.
using Order = std::vector<std::int64_t>;

/// Images as ONNX wants them, of TensorFlow's [batch, height, width, channels].
inline const Order kChannelsFirst{0, 3, 1, 2};

/// Zeros, or the least number, around the height and width of images; their one reader pads.
struct Padding {
  /// top, left, bottom, right: ONNX's order.
  std::vector<std::int64_t> pads{};
  /// The tensor that is padded.
  std::string input{};
};

/// Representation of a tensor of the frozen graph.
struct Held {
  graph::DataType type = graph::DataType::kFloat;
  std::optional<std::size_t> rank{};
  /// Sizes of a reshape's output, one of which may be -1, and the value that it reshapes.
  std::vector<std::int64_t> sizes{};
  std::string reshaped{};
  /// The constant that it is, not yet written.
  const graph::TensorValue* constant = nullptr;
  /// The values that hold it, each with its order of axes.
  std::vector<std::pair<Order, std::string>> forms{};
  /// A value that holds it as int64, where it is int32: ONNX's shapes are int64.
  std::string wide{};
  std::optional<Padding> padding{};
  /// Elements of a vector of sizes that is put together; -1 for those that are computed.
  std::vector<std::int64_t> elements{};
};

/// The model under construction, and what stands for each tensor in it. Transposes are only written
/// where a node asks for an order that none gives.
class Conversion {
 public:
  /// `is_inside`: for a graph inside of another, whose inputs need have no known rank.
  explicit Conversion(const graph::FrozenGraph& from, bool is_inside = false);

  /// Adds a node with one output and returns the value. The name is made unique.
  std::string add(std::string_view name, std::string_view op, std::vector<std::string> inputs,
                  Attributes attributes = {});
  /// The same with several outputs.
  std::vector<std::string> add_several(std::string_view name, std::string_view op,
                                       std::vector<std::string> inputs, std::size_t outputs,
                                       Attributes attributes = {});
  /// A constant of the model; one without a name is shared with those that are equal.
  std::string constant(const graph::TensorValue& value, std::string_view name = {});
  /// An int64 vector.
  std::string ints(const std::vector<std::int64_t>& values);
  std::string cast(std::string_view name, const std::string& value, graph::DataType to);

  void hold(const std::string& tensor, Held held);
  /// Says that the tensor is this constant, which is not written before it is asked for.
  void hold_constant(const std::string& tensor, graph::TensorValue value);
  const Held& held(const std::string& tensor) const;
  const std::vector<graph::FunctionDef>& functions() const { return from_.graph.functions; }
  /// The entries of this node's table. Throws Unimplemented where they are not known.
  const graph::LookupTable& table(const std::string& node) const;
  /// A value that holds the tensor in this order.
  std::string get(const std::string& tensor, const Order& order = {});
  /// A value that holds an int32 or int64 tensor as int64.
  std::string get_wide(const std::string& tensor);
  /// The order that get() has without a transpose; empty for a constant.
  Order order_of(const std::string& tensor) const;

  /// The node that alone reads the tensor, or nullptr.
  const graph::NodeDef* sole_reader(const std::string& tensor) const;
  /// The bias of a convolution that was added last and that nothing else reads; whether there is
  /// such a one.
  bool add_bias(const std::string& tensor, const std::string& bias);

  /// Names the outputs and gives the model away, without what nothing reads.
  Model take();

 private:
  std::string unique(std::string_view name);
  void add_inputs();
  void add_output(const std::string& key, const graph::TensorInfo& info);
  void rename(const std::string& from, const std::string& to);
  void drop_unread();

  const graph::FrozenGraph& from_;
  const bool is_inside_;
  Model model_;
  std::set<std::string, std::less<>> names_;
  std::map<std::string, Held, std::less<>> held_;
  std::deque<graph::TensorValue> made_constants_;
  std::map<std::string, std::vector<const graph::NodeDef*>, std::less<>> readers_;
  std::map<std::string, std::size_t, std::less<>> producers_;
  std::vector<std::pair<graph::TensorValue, std::string>> unnamed_constants_;
};

/// One node of the frozen graph with readers for its inputs and attributes. They throw
/// InvalidArgument or Unimplemented.
class Call {
 public:
  Call(const graph::NodeDef& of, Conversion& target);

  std::size_t count() const { return inputs_.size(); }
  /// The tensor that is input `index`.
  const std::string& tensor(std::size_t index) const;
  const Held& held(std::size_t index) const { return to.held(tensor(index)); }
  std::string input(std::size_t index, const Order& order = {}) {
    return to.get(tensor(index), order);
  }
  /// The constant that the input is, or nullptr.
  const graph::TensorValue* constant(std::size_t index) const { return held(index).constant; }
  /// The int32 or int64 numbers of an input that must be constant; `what` for the error.
  std::vector<std::int64_t> numbers(std::size_t index, std::string_view what) const;
  std::int64_t number(std::size_t index, std::string_view what) const;
  /// The sizes that a vector holds, -1 for those that are computed; empty if nothing is known.
  std::vector<std::int64_t> sizes(std::size_t index) const;
  /// The axis of the input's value in its order, counted from the front where the rank is known.
  std::int64_t place_of(std::int64_t axis, const Order& order, std::optional<std::size_t> rank);

  graph::DataType type(std::string_view attr = "T") const;
  template <typename T>
  T attr_or(std::string_view name, T otherwise) const {
    return graph::attr_or<T>(node, name, std::move(otherwise));
  }

  /// A node on the way, named after this one and `op`.
  std::string add(std::string_view op, std::vector<std::string> inputs, Attributes attributes = {});
  /// The node that gives the result, under this node's name.
  std::string last(std::string_view op, std::vector<std::string> inputs,
                   Attributes attributes = {});
  /// Says what the result is.
  void give(const std::string& value, graph::DataType type, std::optional<std::size_t> rank = {},
            const Order& order = {}, int output = 0);
  /// The result is an int64 value that stands for int32 or int64.
  void give_wide(const std::string& value, graph::DataType type, std::optional<std::size_t> rank);
  /// The result is this constant.
  void give_constant(graph::TensorValue value, int output = 0);
  /// The result is input `index`, seen with its axes permuted: axis i is the input's axes[i].
  void give_permuted(std::size_t index, const Order& axes);
  /// Whether input `index` can be had as int64 without a cast, being an int32.
  bool is_wide(std::size_t index) const;

  /// Throws Unimplemented when `holds` is false.
  void require(bool holds, std::string_view why) const;

  const graph::NodeDef& node;
  Conversion& to;

 private:
  std::vector<std::string> inputs_;
};

/// The tensor's elements with its axes permuted.
graph::TensorValue permuted(const graph::TensorValue& value, const Order& order);
/// An order for whatever is held: identity of this rank where it is empty.
Order full_order(const Order& order, std::size_t rank);

/// How one operation of TensorFlow is written in ONNX.
struct OpConversion {
  std::string_view op;
  /// The operators it becomes, for the documents.
  std::string_view onnx;
  void (*convert)(Call& call);
};

std::span<const OpConversion> pointwise_conversions();
std::span<const OpConversion> linear_conversions();
std::span<const OpConversion> image_conversions();
std::span<const OpConversion> reduction_conversions();
std::span<const OpConversion> shape_conversions();
std::span<const OpConversion> lookup_conversions();
std::span<const OpConversion> column_conversions();
std::span<const OpConversion> loop_conversions();

/// The graph with a further input for each loop: whether there is a first round. Nothing for a
/// graph without loops.
std::optional<graph::FrozenGraph> with_first_conditions(const graph::FrozenGraph& frozen);
/// A graph that stands inside of another.
Model convert_part(const graph::FrozenGraph& frozen);
/// Puts this in front of all names of values, those of graphs inside too.
void add_prefix(Model& model, const std::string& prefix);
/// How many axes an input of any rank gets, going by what reads it: matrices and images have
/// theirs, and what is computed element by element gets rows.
std::size_t usual_rank(const graph::GraphDef& graph, const std::string& tensor);

/// Whether the call compares words; converts it if so. `equal`: Equal, else NotEqual.
bool compares_words(Call& call, bool equal);

}  // namespace muster::onnx
