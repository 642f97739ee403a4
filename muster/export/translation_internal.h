#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/export/graph_builder_internal.h"
#include "muster/export/program.h"
#include "muster/export/translate.h"
#include "muster/saved_model/graph/graph_def.h"

/// How a Program becomes nodes of a graph.
namespace muster::exporting {

/// How the axes of a tensor in the graph stand for those of the traced one: axis i of the graph's
/// is axis order[i] of the traced.
using Order = std::vector<std::int64_t>;

/// Two numbers of a window over images.
using HeightWidth = std::pair<std::int64_t, std::int64_t>;

Order identity_order(std::size_t rank);
/// The axes as traced, but this one last.
Order with_axis_last(std::size_t rank, std::int64_t axis);
/// The order that is left when an axis is taken away.
Order without_axis(const Order& order, std::int64_t axis);
/// Where an axis of the traced value stands in this order.
std::int64_t place_of(const Order& order, std::int64_t axis);
inline const Order kChannelsLast{0, 2, 3, 1};

graph::DataType graph_type(at::ScalarType type);
graph::TensorValue graph_value(const at::Tensor& tensor);

/// Output of a feature column in a graph: numbers [rows, width], or ids with the rows they belong
/// to.
struct ColumnNodes {
  std::string numbers{};
  /// int64 [n], each inside of the table.
  std::string ids{};
  /// int32 [n], rising.
  std::string rows{};
  /// float [n]; empty where every id counts as 1.
  std::string weights{};
};

/// Packed sequences in a graph, where they stay padded.
struct PackedSteps {
  /// [steps * rows, width], step after step.
  std::string flat{};
  /// int64 [rows, 1]
  std::string lengths{};
  std::int64_t steps = 0;
  Size rows{};
  /// Whether what comes after a row's end is 0.
  bool masked = false;
};

/// Nodes that stand for each traced value in the graph. Transposes are only written where an order
/// is asked for that no node gives.
class Translation {
 public:
  Translation(const Program& program, GraphBuilder& builder)
      : program_(program), builder_(builder) {}

  std::string add(std::string_view name, std::string_view op, std::vector<std::string> inputs,
                  graph::Attrs attrs) {
    return builder_.add(name, op, std::move(inputs), std::move(attrs));
  }
  std::string constant(const graph::TensorValue& value) { return builder_.constant(value); }
  std::string ints(const std::vector<std::int64_t>& values) { return builder_.ints(values); }
  std::string cast(const std::string& input, graph::DataType from, graph::DataType to) {
    return builder_.cast(input, from, to);
  }
  /// The sizes as an int32 vector, computed where they follow the batch.
  std::string shape_vector(const std::vector<Size>& sizes);
  /// For Reshape: -1 for the size that follows the batch, where it is only one.
  std::string reshape_vector(const std::vector<Size>& sizes);
  /// A size as a single int32.
  std::string count(const Size& size);
  /// The operation that computes the value, or nullptr.
  const Operation* producer(ValueId id) const;

  /// Says that the node gives this value, in this order of axes; empty: as traced.
  void set(ValueId id, const std::string& node, Order order = {});
  /// The output is the input seen with its axes permuted: axis i is the input's axes[i].
  void set_permuted(ValueId output, ValueId input, const Order& axes);
  /// A tensor of the graph that holds the value in this order; empty: as traced. Throws
  /// Unimplemented for the ids of a column, which only a lookup reads.
  std::string get(ValueId id, Order order = {});
  /// An order that get() has without a transpose.
  const Order& order_of(ValueId id) const;
  /// Whether get() has this order without a transpose.
  bool has(ValueId id, const Order& order) const;

  /// Says which nodes give the ids of a column.
  void set_ids(ValueId id, ColumnNodes nodes) { ids_[id.index] = std::move(nodes); }
  /// Throws Unimplemented for a value that is no column's.
  const ColumnNodes& ids(ValueId id) const;

  /// Says which nodes hold packed sequences.
  void set_packed(ValueId id, PackedSteps steps) { packed_[id.index] = std::move(steps); }
  /// Throws Unimplemented for a value of another kind.
  const PackedSteps& packed(ValueId id) const;

  const Value& value(ValueId id) const { return program_.values[id.index]; }
  const Program& program() const { return program_; }
  GraphBuilder& builder() { return builder_; }
  /// Prefix of the names of nodes that are added from now on.
  void enter(const std::string& scope) { builder_.enter(scope); }

 private:
  using Forms = std::vector<std::pair<Order, std::string>>;
  const Forms& forms_of(ValueId id) const;

  const Program& program_;
  GraphBuilder& builder_;
  std::map<std::size_t, Forms> held_;
  std::map<std::size_t, ColumnNodes> ids_;
  std::map<std::size_t, PackedSteps> packed_;
};

/// One operation with readers for its arguments; they throw Unimplemented for an argument of a kind
/// or value that has no translation, naming the operation.
class Call {
 public:
  Call(const Operation& operation, Translation& target) : to(target), operation_(operation) {}

  std::size_t count() const { return operation_.arguments.size(); }
  const Argument& argument(std::size_t index) const;
  bool is_none(std::size_t index) const;
  bool is_list(std::size_t index) const;
  bool is_tensor(std::size_t index) const;

  ValueId id(std::size_t index) const;
  std::vector<ValueId> ids(std::size_t index) const;
  std::int64_t integer(std::size_t index) const;
  /// An axis, counted from 0.
  std::int64_t axis(std::size_t index, std::size_t rank) const;
  /// A list, or one number.
  std::vector<std::int64_t> integers(std::size_t index) const;
  std::vector<Size> sizes(std::size_t index) const;
  double number(std::size_t index) const;
  bool truth(std::size_t index) const;
  std::string text(std::size_t index) const;
  /// The two numbers of a list of two, or of one that stands for both. Where the input is sequences
  /// [batch, channels, length], the height is `missing`.
  HeightWidth height_width(std::size_t index, std::int64_t missing) const;

  /// The value, a constant tensor or a number as a tensor of this type.
  std::string operand(std::size_t index, at::ScalarType type, const Order& order = {});
  std::string tensor(std::size_t index, Order order = {}) {
    return to.get(id(index), std::move(order));
  }
  const Value& value(std::size_t index) const { return to.value(id(index)); }
  std::size_t rank(std::size_t index) const { return value(index).sizes.size(); }

  /// How many values it gives; there may be fewer than libtorch's function returns.
  std::size_t results() const { return operation_.outputs.size(); }
  const Value& result(std::size_t index = 0) const { return to.value(result_id(index)); }
  ValueId result_id(std::size_t index = 0) const { return operation_.outputs.at(index); }
  void give(const std::string& node, Order order = {}) {
    to.set(result_id(), node, std::move(order));
  }
  /// The same for one of several results.
  void give_one(std::size_t index, const std::string& node, Order order = {}) {
    to.set(result_id(index), node, std::move(order));
  }
  graph::DataType type() const { return graph_type(result().dtype); }

  /// Throws Unimplemented when `holds` is false: "aten::conv2d in 'conv1': <why>".
  void require(bool holds, std::string_view why) const;

  /// A node with this operation, in the result's type, under its own name.
  std::string node(std::string_view op, std::vector<std::string> inputs) {
    return to.add(op, op, std::move(inputs), {{"T", type()}});
  }
  /// A number in the result's type, and a 32-bit one, such as an axis.
  std::string scalar(double value);
  std::string int32(std::int64_t value);
  std::string reshaped(const std::string& input, const std::vector<Size>& sizes);
  /// Pads with zeros or another number: two amounts an axis, before and after. Gives the input
  /// where all are 0.
  std::string padded(const std::string& input, const std::vector<std::int64_t>& amounts,
                     double value = 0);
  /// The first axes of a tensor of these sizes with zeros between their entries, a dilation an
  /// axis.
  std::string spread(std::string input, std::vector<Size> sizes,
                     const std::vector<std::int64_t>& dilations);
  /// Over these places of the input, which keeps its axes.
  std::string reduced(std::string_view op, const std::string& input,
                      const std::vector<std::int64_t>& places);

  /// An argument as images [batch, height, width, channels]; sequences are one pixel high.
  std::string images(std::size_t index);
  /// Gives such images, as sequences where the result is those.
  void give_images(const std::string& node);
  /// Height and width of an argument or result that images() and give_images() take. Throws where
  /// they follow the batch.
  HeightWidth image_size(const Value& value) const;

  Translation& to;

 private:
  const Operation& operation_;
};

/// Nodes that feed a program in a graph.
struct ProgramInputs {
  /// For each of the program's features a node that gives it.
  std::vector<std::string> features{};
  /// For each of the program's columns.
  std::vector<ColumnNodes> columns{};
};

/// Adds the program to a graph and returns its predictions. Variables that are there already are
/// used again, others are added to the list. Throws as translate() does.
std::vector<std::pair<std::string, GraphTensor>> translate_into(
    const Program& program, const ProgramInputs& inputs, GraphBuilder& builder,
    std::vector<GraphVariable>& variables);

/// Adds a program of one feature and one output, without variables; returns the output's node.
std::string translate_function(const Program& program, const std::string& input,
                               GraphBuilder& builder);

/// The version that a finished graph carries.
graph::Versions graph_versions();
/// -1 where a size follows the batch.
graph::Shape shape_of(const std::vector<Size>& sizes);

/// How one operation of libtorch is written in TensorFlow's.
struct OpTranslation {
  std::string_view aten;
  /// The operations it becomes, for the documents.
  std::string_view tensorflow;
  void (*translate)(Call& call);
};

std::span<const OpTranslation> activation_translations();
std::span<const OpTranslation> attention_translations();
std::span<const OpTranslation> column_translations();
std::span<const OpTranslation> convolution_translations();
std::span<const OpTranslation> gather_translations();
std::span<const OpTranslation> linear_translations();
std::span<const OpTranslation> normalisation_translations();
std::span<const OpTranslation> pointwise_translations();
std::span<const OpTranslation> pooling_translations();
std::span<const OpTranslation> recurrent_translations();
std::span<const OpTranslation> reduction_translations();
std::span<const OpTranslation> shape_translations();

/// Two numbers for height and width as TensorFlow's lists over channels-last images have them.
graph::AttrValue over_image(HeightWidth both);

}  // namespace muster::exporting
