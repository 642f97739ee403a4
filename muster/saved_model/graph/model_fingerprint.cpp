#include "muster/saved_model/graph/model_fingerprint.h"

#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "muster/base/fingerprint.h"
#include "muster/saved_model/graph/codec_internal.h"
#include "muster/saved_model/graph/saved_model_codec_internal.h"

namespace muster::graph {
namespace {

// Version of the rules by which these hashes are made.
constexpr std::int64_t kProducer = 1;

/// The name of a function of TensorFlow 2, which ends in a number that is another in every program.
struct NumberedName {
  std::string_view name;
  std::int64_t number = 0;
};

std::optional<NumberedName> numbered(std::string_view name) {
  const std::string_view digits = name.substr(name.rfind('_') + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  // "f_007" ends in the number 7, and "f_00" is left.
  const std::string text = std::to_string(number);
  if (name.ends_with(text)) name.remove_suffix(text.size());
  return NumberedName{name, number};
}

bool calls_a_function(const NodeDef& node) {
  return node.op == "PartitionedCall" || node.op == "StatefulPartitionedCall";
}

void regularize_call(Attrs& attrs) {
  const auto called = attrs.find("f");
  if (called != attrs.end()) {
    if (auto* function = std::get_if<FunctionRef>(&called->second.value)) {
      if (const auto name = numbered(function->name)) function->name = std::string(name->name);
    }
  }
  const auto config = attrs.find("config_proto");
  if (config != attrs.end()) config->second = std::string();
}

// The texts of constants may be paths of the machine that exported.
void regularize_constant(Attrs& attrs) {
  const auto type = attrs.find("dtype");
  const auto value = attrs.find("value");
  if (type == attrs.end() || value == attrs.end()) return;
  if (type->second == AttrValue(DataType::kString)) value->second = {};
}

std::uint64_t program_hash(const GraphDef& graph) {
  GraphDef program{.nodes = graph.nodes};
  for (NodeDef& node : program.nodes) {
    if (calls_a_function(node)) regularize_call(node.attrs);
    if (node.op == "Const") regularize_constant(node.attrs);
  }
  std::string bytes = encode_graph(program);
  // TensorFlow empties these two, and an empty message is there.
  put_bytes_always(2, "", bytes);
  put_bytes_always(4, "", bytes);
  return fingerprint64(bytes + graph.extra);
}

std::uint64_t signatures_hash(const MetaGraph& meta) {
  std::uint64_t hash = 0;
  for (const auto& [key, signature] : meta.signatures) {
    hash = concatenate_fingerprints(hash, fingerprint64(key));
    hash = concatenate_fingerprints(hash, fingerprint64(encode_signature(signature)));
  }
  return hash;
}

// Hash of the map of functions in a SavedObjectGraph, in the order of the numbers in their names.
std::uint64_t object_graph_hash(std::string_view object_graph) {
  const GraphLimits limits;
  Decoding decoding{.limits = limits};
  std::map<std::string, std::string, std::less<>> functions;
  for_each_field({object_graph, 0}, nullptr, [&](std::uint32_t tag, wire::Reader& reader) {
    if (tag != wire::tag(2, wire::kBytes)) return false;
    take_entry(reader, decoding, "function", functions,
               [](const Message& value) { return std::string(value.bytes); });
    return true;
  });
  std::map<std::int64_t, const std::pair<const std::string, std::string>*> ordered;
  for (const auto& function : functions) {
    if (const auto name = numbered(function.first)) ordered.emplace(name->number, &function);
  }
  std::uint64_t hash = 0;
  for (const auto& [number, function] : ordered) {
    hash = concatenate_fingerprints(hash, fingerprint64(numbered(function->first)->name));
    hash = concatenate_fingerprints(hash, fingerprint64(function->second));
  }
  return hash;
}

std::uint64_t checkpoint_hash(const Path& dir) {
  const Path index = variables_prefix(dir).string() + ".index";
  return file_exists(index) ? fingerprint64(read_file(index)) : 0;
}

}  // namespace

ModelFingerprint fingerprint_of(const SavedModel& model, std::string_view encoded,
                                const Path& dir) {
  const MetaGraph& meta = model.meta_graphs.at(0);
  return {.saved_model_checksum = fingerprint64(encoded),
          .graph_def_program_hash = program_hash(meta.graph),
          .signature_def_hash = signatures_hash(meta),
          .saved_object_graph_hash = object_graph_hash(meta.object_graph),
          .checkpoint_hash = checkpoint_hash(dir)};
}

std::string encode_fingerprint(const ModelFingerprint& fingerprint) {
  std::string version;
  put_int(1, kProducer, version);
  std::string out;
  std::uint32_t field = 0;
  for (const std::uint64_t hash :
       {fingerprint.saved_model_checksum, fingerprint.graph_def_program_hash,
        fingerprint.signature_def_hash, fingerprint.saved_object_graph_hash,
        fingerprint.checkpoint_hash}) {
    put_int(++field, static_cast<std::int64_t>(hash), out);
  }
  put_bytes(6, version, out);
  return out;
}

}  // namespace muster::graph
