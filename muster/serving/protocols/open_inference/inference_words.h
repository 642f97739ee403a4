#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/core/servable.h"
#include "muster/serving/core/service.h"

/// The Open Inference Protocol (KServe v2, Triton) without its transports.
namespace muster::serving::oip {

/// "FP32", "BYTES"; empty for types that the protocol has not.
std::string_view datatype_of(graph::DataType type);
std::optional<graph::DataType> type_named(std::string_view name);

/// The shape of an input or output as metadata has it: [-1] stands for any rank, which the protocol
/// has no word for.
std::vector<std::int64_t> shape_of(const graph::TensorInfo& info);

/// A tensor as its bytes: little-endian and row-major; strings each with four bytes of length in
/// front.
std::string raw_bytes(const graph::TensorValue& tensor);

/// Metadata of an input in a message, without its values.
struct TensorHeader {
  std::string name{};
  std::string datatype{};
  std::vector<std::int64_t> shape{};
};

/// An empty tensor of that type and shape, and how many elements it is to have. Throws
/// InvalidArgument, naming the input, for an unknown type and for sizes that cannot be.
struct EmptyTensor {
  graph::TensorValue tensor{};
  std::int64_t elements = 0;
};
EmptyTensor empty_tensor(const TensorHeader& header, std::string_view model);

/// The same filled from such bytes. Throws InvalidArgument in Triton's words.
graph::TensorValue tensor_from_raw(const TensorHeader& header, std::string_view bytes,
                                   std::string_view model);

/// Throws InvalidArgument in Triton's words unless the inputs are those of the signature.
void check_inputs(const std::string& model, const graph::SignatureDef& signature,
                  const Tensors& inputs);
/// Keeps the outputs that are asked for, all when none is. Throws InvalidArgument for another.
void select_outputs(const std::string& model, const std::vector<std::string>& wanted,
                    Tensors& outputs);

/// Checks a parameter of a load in Triton's protocol: `config` holds a model's configuration as
/// JSON, `file:PATH` a file of it; others are passed over. Throws InvalidArgument for a `config`
/// that is no JSON object, Unimplemented for one that is to change something, and for files.
void check_load_parameter(std::string_view model, std::string_view name, std::string_view value);

/// The bits of a half-precision number nearest to `value`.
std::uint16_t half_bits(float value);

/// A line of the repository's index.
struct IndexEntry {
  std::string name{};
  /// Empty for a model that is not loaded.
  std::string version{};
  std::string_view state{};
  std::string reason{};
  /// Names of the version, and whether it answers requests that name none.
  std::vector<std::string> labels{};
  bool is_default = false;
  /// Its part of those requests, where versions share them by weight.
  std::optional<double> share{};
};
std::vector<IndexEntry> repository_index(Service& service, bool only_ready);

inline constexpr const char* kServerName = "muster";

}  // namespace muster::serving::oip
