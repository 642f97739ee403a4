#include <memory>
#include <optional>
#include <vector>

#include "muster/train/compiler/channel_blocks.h"
#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/program_builder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

constexpr std::int64_t kFewChannels = 4;

/// A convolution of few channels, and the gradient of its weight, if the step takes it.
struct FewChannels {
  NodeId forward = -1;
  std::optional<NodeId> backward{};
  ValueId picture = -1;
  ValueId weight = -1;
  std::int64_t stride = 1;
  /// By rows and columns.
  std::vector<std::int64_t> padding{};
  std::vector<std::int64_t> made{};
};

bool has_few_channels(const Geometry& picture) {
  return picture.sizes.size() == 4 && is_short_float(picture.type) &&
         picture.sizes[1] <= kFewChannels && picture.sizes[1] > 1 && is_for_programs(picture);
}

// A number for each of both dimensions.
std::vector<std::int64_t> two_numbers(const Node& node, std::size_t place) {
  auto numbers = node.arguments[place].constant.toIntVector();
  if (numbers.size() == 1) numbers.push_back(numbers[0]);
  return numbers;
}

// Whether this is an untransposed convolution of one group, of a stride that blocks are made for.
bool is_plain_convolution(const Node& node) {
  if (!is(node, "aten::convolution")) return false;
  const auto stride = two_numbers(node, 3);
  const auto dilation = two_numbers(node, 5);
  return !node.arguments[6].constant.toBool() && node.arguments[8].constant.toInt() == 1 &&
         stride[0] == stride[1] && stride[0] <= 2 && dilation[0] == 1 && dilation[1] == 1;
}

// Which of a convolution's gradients are asked for: picture, weight, bias.
bool asks_weight_alone(const Node& node) {
  const auto asked = node.arguments[10].constant.toBoolList();
  return !asked.get(0) && asked.get(1) && node.results.size() == 3;
}

std::optional<FewChannels> few_channels(const Graph& graph, const Uses& uses, NodeId id) {
  const Node& node = graph.nodes[Graph::index(id)];
  if (!is_plain_convolution(node)) return std::nullopt;
  const ValueId picture = *tensor_at(node, 0);
  const ValueId weight = *tensor_at(node, 1);
  if (!has_few_channels(graph.geometry(picture)) || !uses.is_pure_value(picture) ||
      !uses.is_pure_value(weight) || !is_for_programs(graph.geometry(weight))) {
    return std::nullopt;
  }
  const Geometry& made = graph.geometry(*node.results[0].value);
  FewChannels found{.forward = id,
                    .picture = picture,
                    .weight = weight,
                    .stride = two_numbers(node, 3)[0],
                    .padding = two_numbers(node, 4),
                    .made = {made.sizes[2], made.sizes[3]}};
  const auto& window = graph.geometry(weight).sizes;
  if (found.padding[0] >= window[2] || found.padding[1] >= window[3]) return std::nullopt;
  for (const NodeId reader : uses.of_value(picture).readers) {
    if (reader == id) continue;
    const Node& other = graph.nodes[Graph::index(reader)];
    const bool is_backward = is(other, "aten::convolution_backward") &&
                             tensor_at(other, 1) == picture && tensor_at(other, 2) == weight &&
                             asks_weight_alone(other) && !found.backward;
    if (!is_backward) return std::nullopt;
    found.backward = reader;
  }
  return found;
}

/// The tensor before casts and changes of layout, where they made it.
ValueId before_casts(const Graph& graph, const Uses& uses, ValueId value) {
  while (const Node* const maker = uses.maker(value)) {
    if (!is(*maker, "aten::_to_copy") && !is(*maker, "aten::clone")) break;
    const ValueId from = *tensor_at(*maker, 0);
    const Geometry& geometry = graph.geometry(from);
    const bool same = geometry.sizes == graph.geometry(value).sizes && is_for_programs(geometry) &&
                      geometry.device == graph.geometry(value).device &&
                      uses.is_constant(graph.storage_of(from));
    // Rounded twice is not rounded once, except for types of which one holds the other.
    if (!same || (is_short_float(geometry.type) && geometry.type != graph.geometry(value).type)) {
      break;
    }
    value = from;
  }
  return value;
}

// The squares of a dimension of a window, or of the picture below it: how many, and where the first
// begins.
struct Squares {
  std::int64_t count = 1;
  std::int64_t first = 0;
};

Squares of_window(std::int64_t size, std::int64_t padding, std::int64_t stride) {
  const std::int64_t before = (padding + stride - 1) / stride;
  return {(size - 1 - padding) / stride + before + 1, padding - stride * before};
}

Squares of_picture(std::int64_t made, const Squares& window, std::int64_t padding) {
  return {made + window.count - 1, window.first - padding};
}

ChannelBlocks blocks_of(const Graph& graph, ValueId few, at::ScalarType to, std::int64_t stride,
                        const Squares& rows, const Squares& columns) {
  const Geometry& geometry = graph.geometry(few);
  return {.from = geometry.type,
          .to = to,
          .sizes = geometry.sizes,
          .strides = geometry.strides,
          .stride = stride,
          .slots = stride == 1 ? 8 : (geometry.sizes[1] <= 2 ? 2 : 4),
          .rows = rows.count,
          .columns = columns.count,
          .first_row = rows.first,
          .first_column = columns.first};
}

ValueId new_blocks(Graph& graph, const ChannelBlocks& blocks, c10::Device device) {
  Geometry geometry = contiguous_geometry(
      blocks.to, device, {blocks.sizes[0], blocks.channels(), blocks.rows, blocks.columns});
  const auto& sizes = geometry.sizes;
  geometry.strides = {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]};
  return graph.new_value(geometry);
}

Node blocks_node(const ChannelBlocks& blocks, ValueId from, ValueId to, bool back) {
  Node node;
  node.arguments.push_back(tensor(from));
  node.results.push_back({.place = 0, .value = to});
  node.kernel = std::make_shared<ChannelBlocksKernel>(blocks, back);
  return node;
}

const c10::IValue kOnes{std::vector<std::int64_t>{1, 1}};
const c10::IValue kZeros{std::vector<std::int64_t>{0, 0}};

/// A convolution and the gradient of its weight, over blocks.
class Blocked {
 public:
  Blocked(Graph& graph, const Uses& uses, const FewChannels& found)
      : graph_(graph), found_(found), device_(graph.geometry(found.picture).device) {
    const Geometry window = graph.geometry(found.weight);
    const Squares rows = of_window(window.sizes[2], found.padding[0], found.stride);
    const Squares columns = of_window(window.sizes[3], found.padding[1], found.stride);
    const ValueId picture = before_casts(graph, uses, found.picture);
    const ValueId weight = before_casts(graph, uses, found.weight);
    const auto type = graph.geometry(found.picture).type;
    const ChannelBlocks of_pictures = blocks_of(
        graph, picture, type, found.stride, of_picture(found.made[0], rows, found.padding[0]),
        of_picture(found.made[1], columns, found.padding[1]));
    of_weights_ = blocks_of(graph, weight, type, found.stride, rows, columns);
    picture_ = new_blocks(graph, of_pictures, device_);
    weight_ = new_blocks(graph, of_weights_, device_);
    before_ = {blocks_node(of_pictures, picture, picture_, false),
               blocks_node(of_weights_, weight, weight_, false)};
  }

  void replace() {
    if (found_.backward) replace_backward(*found_.backward);
    Node& node = graph_.nodes[Graph::index(found_.forward)];
    node.arguments[0] = tensor(picture_);
    node.arguments[1] = tensor(weight_);
    node.arguments[3] = constant(kOnes);
    node.arguments[4] = constant(kZeros);
    graph_.nodes.insert(graph_.nodes.begin() + found_.forward, before_.begin(), before_.end());
  }

 private:
  // It makes the gradient of all blocks, of which the step takes those of the weight.
  void replace_backward(NodeId id) {
    Node& node = graph_.nodes[Graph::index(id)];
    const ValueId gradient = *node.results[1].value;
    const Geometry own = graph_.geometry(gradient);
    ChannelBlocks back = of_weights_;
    back.from = own.type;
    back.to = own.type;
    back.strides = own.strides;
    const ValueId all = new_blocks(graph_, back, device_);
    node.arguments[1] = tensor(picture_);
    node.arguments[2] = tensor(weight_);
    node.arguments[4] = constant(kOnes);
    node.arguments[5] = constant(kZeros);
    node.results[1].value = all;
    graph_.nodes.insert(graph_.nodes.begin() + id + 1, blocks_node(back, all, gradient, true));
  }

  Graph& graph_;
  const FewChannels& found_;
  c10::Device device_;
  ChannelBlocks of_weights_{};
  ValueId picture_ = -1;
  ValueId weight_ = -1;
  std::vector<Node> before_{};
};

// Whether the way back makes the gradient as a tensor of its own.
bool makes_gradient(const Graph& graph, const FewChannels& found) {
  if (!found.backward) return true;
  const Node& node = graph.nodes[Graph::index(*found.backward)];
  return node.results[1].value && graph.geometry(*node.results[1].value).is_dense() &&
         graph.geometry(*node.results[1].value).offset == 0;
}

}  // namespace

void pad_channels(Graph& graph, bool everywhere) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Uses uses(graph);
    const auto found = few_channels(graph, uses, static_cast<NodeId>(i));
    if (!found || !makes_gradient(graph, *found)) continue;
    if (!everywhere && !graph.geometry(found->picture).device.is_cuda()) continue;
    Blocked(graph, uses, *found).replace();
    i += 2;
  }
}

}  // namespace muster::compiler
