#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/saved_model/graph/data_type.h"
#include "muster/saved_model/graph/tensor_value.h"

/// ONNX models as values, and their files. Nothing here needs libtorch.
namespace muster::onnx {

/// The version of ONNX's operators that models here are written in, and of its file format.
inline constexpr std::int64_t kOpset = 17;
inline constexpr std::int64_t kIrVersion = 8;
/// The operators for words, of which a model with feature columns has some, and their version.
inline constexpr std::string_view kWordsDomain = "ai.onnx.ml";
inline constexpr std::int64_t kWordsOpset = 2;

struct Model;

/// The value of an attribute. A model is a graph inside of the graph: its version and metadata do
/// not count.
using Attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>,
                               std::vector<std::string>, std::shared_ptr<const Model>>;
/// Attributes in the order of their names.
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// One operator of a graph. Values are named; an empty input is one that is omitted.
struct Node {
  std::string name{};
  std::string op{};
  std::vector<std::string> inputs{};
  std::vector<std::string> outputs{};
  Attributes attributes{};
  /// Empty for ONNX's own operators.
  std::string domain{};
};

/// A size, or the name of one that callers choose: "batch".
using Dimension = std::variant<std::int64_t, std::string>;

/// An input or output of a model.
struct ValueInfo {
  std::string name{};
  graph::DataType type = graph::DataType::kFloat;
  /// Nothing where the rank is not known, which only a graph inside of another may leave open.
  std::optional<std::vector<Dimension>> shape = std::vector<Dimension>{};
};

/// A constant that nodes name as an input.
struct Initializer {
  std::string name{};
  graph::TensorValue value{};
};

struct Model {
  std::string graph_name = "muster";
  /// Each after those whose outputs it takes.
  std::vector<Node> nodes{};
  std::vector<Initializer> initializers{};
  std::vector<ValueInfo> inputs{};
  std::vector<ValueInfo> outputs{};
  /// Properties for programs that read the model, such as the signature that it was made from.
  std::map<std::string, std::string, std::less<>> metadata{};
};

/// ONNX's number of a type. Throws Unimplemented for a type that ONNX lacks.
std::int32_t element_type(graph::DataType type);

/// The bytes of an .onnx file, the same for equal models. Throws InvalidArgument when it is larger
/// than protobuf allows, 2 GiB.
std::string encode_model(const Model& model);

/// A line for every input, constant, node and output, for people and tests.
std::string to_text(const Model& model);

}  // namespace muster::onnx
