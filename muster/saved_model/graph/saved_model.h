#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/saved_model/graph/graph_def.h"

/// A SavedModel: saved_model.pb beside variables/ and assets/. `extra` as in graph_def.h.
namespace muster::graph {

/// The three tensors of a sparse input or output.
struct CooSparse {
  std::string values{};
  std::string indices{};
  std::string dense_shape{};
  bool operator==(const CooSparse&) const = default;
};

/// An input or output of a signature: which tensor of the graph it is.
struct TensorInfo {
  /// "Placeholder:0"; empty for a sparse one.
  std::string name{};
  std::optional<CooSparse> sparse{};
  DataType dtype = DataType::kInvalid;
  Shape shape{};
  std::string extra{};
  bool operator==(const TensorInfo&) const = default;
};

inline constexpr std::string_view kPredictMethod = "tensorflow/serving/predict";
inline constexpr std::string_view kClassifyMethod = "tensorflow/serving/classify";
inline constexpr std::string_view kRegressMethod = "tensorflow/serving/regress";
inline constexpr std::string_view kDefaultSignature = "serving_default";
inline constexpr std::string_view kServeTag = "serve";
/// The signature and the collections that name the operation to run once after loading.
inline constexpr std::string_view kInitOpSignature = "__saved_model_init_op";

/// A way to call a model: named inputs into named outputs.
struct SignatureDef {
  std::map<std::string, TensorInfo, std::less<>> inputs{};
  std::map<std::string, TensorInfo, std::less<>> outputs{};
  std::string method_name{};
  /// Values of inputs that a caller may omit.
  std::map<std::string, TensorValue, std::less<>> defaults{};
  std::string extra{};
  bool operator==(const SignatureDef&) const = default;
};

/// A file under assets/ and the string tensor that is fed with its path.
struct AssetFile {
  /// Only its name is set, as TensorFlow does it.
  TensorInfo tensor{};
  std::string filename{};
  bool operator==(const AssetFile&) const = default;
};

/// How variables are restored: feed `filename_tensor` with the prefix, run `restore_op`.
struct Saver {
  std::string filename_tensor{};
  std::string save_tensor{};
  std::string restore_op{};
  std::int32_t max_to_keep = 0;
  bool sharded = false;
  float keep_checkpoint_every_n_hours = 0;
  /// 2 is the tensor bundle.
  std::int32_t version = 2;
  std::string extra{};
  bool operator==(const Saver&) const = default;
};

/// A named list that programs left beside the graph.
struct Collection {
  struct Nodes {
    std::vector<std::string> names{};
    bool operator==(const Nodes&) const = default;
  };
  /// Serialized messages, such as the VariableDefs of "variables".
  struct Bytes {
    std::vector<std::string> values{};
    bool operator==(const Bytes&) const = default;
  };
  /// Serialized google.protobuf.Any.
  struct Anys {
    std::vector<std::string> values{};
    bool operator==(const Anys&) const = default;
  };
  std::variant<std::monostate, Nodes, Bytes, Anys, std::vector<std::int64_t>, std::vector<float>>
      value{};
  bool operator==(const Collection&) const = default;
};

/// One graph of a SavedModel with its signatures.
struct MetaGraph {
  /// "serve" for prediction, "train", "eval".
  std::vector<std::string> tags{};
  std::map<std::string, SignatureDef, std::less<>> signatures{};
  GraphDef graph{};
  std::vector<AssetFile> assets{};
  std::optional<Saver> saver{};
  std::map<std::string, Collection, std::less<>> collections{};
  /// The TensorFlow that wrote it, "1.14.0".
  std::string tensorflow_version{};
  std::string tensorflow_git_version{};
  std::string meta_graph_version{};
  bool stripped_default_attrs = false;
  /// The definitions of the operations that the graph uses, as their writer knew them.
  std::vector<OpDef> stripped_ops{};
  /// Function and the name that users know it by.
  std::map<std::string, std::string, std::less<>> function_aliases{};
  /// TensorFlow 2's SavedObjectGraph, not read.
  std::string object_graph{};
  std::string info_extra{};
  std::string extra{};
  bool operator==(const MetaGraph&) const = default;
};

struct SavedModel {
  std::int64_t schema_version = 1;
  std::vector<MetaGraph> meta_graphs{};
  std::string extra{};
  bool operator==(const SavedModel&) const = default;
};

/// Whether the folder holds saved_model.pb or saved_model.pbtxt; or saved_model.cpb, which reading
/// refuses.
bool is_saved_model(const Path& dir);

/// Reads DIR/saved_model.pb, or DIR/saved_model.pbtxt where there is only that. Variables and
/// assets are left alone. Throws NotFound, DataLoss, ResourceExhausted; Unimplemented for a folder
/// that only has saved_model.cpb; InvalidArgument for a file that is not regular or is elsewhere,
/// behind a symbolic link. Errors name the file, the node and the field.
SavedModel read_saved_model(const Path& dir, const GraphLimits& limits = {});

/// Makes a SavedModel folder that appears under its name whole or not at all. `fill` is called with
/// the temporary folder, to write variables and assets there. Beside saved_model.pb stands
/// fingerprint.pb (model_fingerprint.h). `as_text` writes saved_model.pbtxt instead of both.
/// Throws AlreadyExists if the name is taken, and leaves nothing behind when it throws.
void write_saved_model(const Path& dir, const SavedModel& model,
                       const std::function<void(const Path& folder)>& fill = {},
                       bool as_text = false);

/// The bytes of saved_model.pb, the same for equal models, and back.
std::string encode_saved_model(const SavedModel& model);
SavedModel decode_saved_model(std::string_view bytes, const GraphLimits& limits = {});

/// The graph with exactly these tags, in any order. Throws NotFound and lists the tags there are.
const MetaGraph& find_meta_graph(const SavedModel& model, const std::vector<std::string>& tags);
/// Throws NotFound and lists the signatures there are.
const SignatureDef& find_signature(const MetaGraph& meta, std::string_view key);

/// The assets, also of a graph of TensorFlow 1, which keeps them in a collection.
std::vector<AssetFile> asset_files(const MetaGraph& meta);
/// The operation to run once after the variables are restored; empty when there is none.
std::string init_op(const MetaGraph& meta);

/// DIR/variables/variables, the prefix of the tensor bundle.
Path variables_prefix(const Path& dir);
/// DIR/assets/FILENAME. Throws InvalidArgument for a name that leaves the folder.
Path asset_path(const Path& dir, std::string_view filename);

}  // namespace muster::graph
