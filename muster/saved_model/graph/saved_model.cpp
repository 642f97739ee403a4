#include "muster/saved_model/graph/saved_model.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/base/object_store.h"
#include "muster/base/unpublished_folder.h"
#include "muster/saved_model/graph/graph_text_internal.h"
#include "muster/saved_model/graph/model_fingerprint.h"
#include "muster/saved_model/graph/saved_model_codec_internal.h"

namespace muster::graph {
namespace {

constexpr std::int64_t kSchemaVersion = 1;
constexpr const char* kBinaryName = "saved_model.pb";
constexpr const char* kTextName = "saved_model.pbtxt";
constexpr const char* kChunkedName = "saved_model.cpb";
constexpr const char* kFingerprintName = "fingerprint.pb";
constexpr std::string_view kAssetsCollection = "saved_model_assets";

std::vector<std::string> sorted(std::vector<std::string> words) {
  std::sort(words.begin(), words.end());
  return words;
}

Path file_of(const Path& dir) {
  for (const char* name : {kBinaryName, kTextName}) {
    if (file_exists(dir / name)) return dir / name;
  }
  if (file_exists(dir / kChunkedName)) {
    throw Unimplemented(
        "{} holds {}: the graph is cut into chunks, as TensorFlow does it for graphs of more than "
        "2 GiB or with experimental_image_format, and such files are not read here; save the model "
        "again with TensorFlow, tf.saved_model.save without experimental_image_format, to get {}",
        dir.string(), kChunkedName, kBinaryName);
  }
  throw NotFound("{} holds neither {} nor {}: a SavedModel is a folder with one of them",
                 dir.string(), kBinaryName, kTextName);
}

void check_model(const SavedModel& model) {
  if (model.schema_version != kSchemaVersion) {
    throw DataLoss("schema version {} where a SavedModel has {}", model.schema_version,
                   kSchemaVersion);
  }
  if (model.meta_graphs.empty()) throw DataLoss("no meta graph");
}

// A name that servers, which look for numbers, pass over.
Path temporary_beside(const Path& dir) {
  const Path whole = dir.has_filename() ? dir : dir.parent_path();
  return whole.parent_path() / fmt::format("temp-{}-{}", whole.filename().string(), ::getpid());
}

// An Any of the collection: the type's name and the serialized message.
AssetFile asset_in(const std::string& any) {
  const GraphLimits limits;
  Decoding decoding{.limits = limits};
  AssetFile asset;
  for_each_field({any, 0}, nullptr, [&](std::uint32_t tag, wire::Reader& reader) {
    if (tag != wire::tag(2, wire::kBytes)) return false;
    asset = decode_asset(take_message(reader, decoding), decoding);
    return true;
  });
  return asset;
}

const std::string* node_of(const MetaGraph& meta, std::string_view collection) {
  const auto found = meta.collections.find(collection);
  if (found == meta.collections.end()) return nullptr;
  const auto* nodes = std::get_if<Collection::Nodes>(&found->second.value);
  return nodes != nullptr && nodes->names.size() == 1 ? &nodes->names[0] : nullptr;
}

}  // namespace

bool is_saved_model(const Path& dir) {
  return file_exists(dir / kBinaryName) || file_exists(dir / kTextName) ||
         file_exists(dir / kChunkedName);
}

SavedModel read_saved_model(const Path& dir, const GraphLimits& limits) {
  const Path path = file_of(dir);
  try {
    const auto status = file_system_for(path).status(path);
    check_limit(status ? status->size_bytes : 0, limits.file_bytes, "the size of the file",
                "file_bytes");
    std::string bytes = read_file_inside(dir, path.filename(), limits.file_bytes);
    if (path.filename() == kTextName) bytes = saved_model_bytes_from_text(bytes);
    SavedModel model = decode_saved_model(bytes, limits);
    check_model(model);
    return model;
  } catch (Error& error) {
    error.add_context(fmt::format("reading {}", path.string()));
    throw;
  }
}

void write_saved_model(const Path& dir, const SavedModel& model,
                       const std::function<void(const Path& folder)>& fill, bool as_text) {
  try {
    check_model(model);
    const std::string bytes = encode_saved_model(model);
    if (file_exists(dir)) throw AlreadyExists("the folder is there already");
    // An object store cannot rename folders: there the model itself is written last, and a folder
    // without it is none.
    ObjectStore* const store = object_store_for(dir);
    const Path made = store != nullptr ? dir : temporary_beside(dir);
    file_system_for(made).create_directories(made);
    UnpublishedFolder temporary(made);
    const Path& folder = temporary.path();
    if (fill) fill(folder);
    const Path file = folder / (as_text ? kTextName : kBinaryName);
    const std::string content = as_text ? saved_model_text_from_bytes(bytes) : bytes;
    if (!as_text) {
      write_file_atomically(folder / kFingerprintName,
                            encode_fingerprint(fingerprint_of(model, bytes, folder)));
    }
    if (store != nullptr) {
      const auto last = store->create_new(file);
      last->write(content);
      last->close();
    } else {
      write_file_atomically(file, content);
      publish_directory(temporary.path(), dir);
    }
    temporary.published();
  } catch (Error& error) {
    error.add_context(fmt::format("writing the SavedModel {}", dir.string()));
    throw;
  }
}

const MetaGraph& find_meta_graph(const SavedModel& model, const std::vector<std::string>& tags) {
  const std::vector<std::string> wanted = sorted(tags);
  std::vector<std::string> there;
  for (const MetaGraph& meta : model.meta_graphs) {
    if (sorted(meta.tags) == wanted) return meta;
    there.push_back(fmt::format("'{}'", fmt::join(sorted(meta.tags), ",")));
  }
  throw NotFound("no graph has the tags '{}'; the SavedModel has {}", fmt::join(wanted, ","),
                 fmt::join(there, ", "));
}

const SignatureDef& find_signature(const MetaGraph& meta, std::string_view key) {
  const auto found = meta.signatures.find(key);
  if (found != meta.signatures.end()) return found->second;
  std::vector<std::string> there;
  there.reserve(meta.signatures.size());
  for (const auto& row : meta.signatures) there.push_back(fmt::format("'{}'", row.first));
  throw NotFound("there is no signature '{}'; the graph has {}", key, fmt::join(there, ", "));
}

std::vector<AssetFile> asset_files(const MetaGraph& meta) {
  if (!meta.assets.empty()) return meta.assets;
  std::vector<AssetFile> assets;
  const auto found = meta.collections.find(kAssetsCollection);
  if (found == meta.collections.end()) return assets;
  const auto* anys = std::get_if<Collection::Anys>(&found->second.value);
  if (anys == nullptr) return assets;
  for (const std::string& any : anys->values) assets.push_back(asset_in(any));
  return assets;
}

std::string init_op(const MetaGraph& meta) {
  const auto signature = meta.signatures.find(kInitOpSignature);
  if (signature != meta.signatures.end() && !signature->second.outputs.empty()) {
    return std::string(parse_input(signature->second.outputs.begin()->second.name).node);
  }
  for (const std::string_view collection :
       {"saved_model_main_op", "main_op", "legacy_init_op", "saved_model_legacy_init_op"}) {
    if (const std::string* node = node_of(meta, collection)) return *node;
  }
  return {};
}

Path variables_prefix(const Path& dir) { return dir / "variables" / "variables"; }

Path asset_path(const Path& dir, std::string_view filename) {
  const Path name(filename);
  const bool leaves =
      std::any_of(name.begin(), name.end(), [](const Path& part) { return part == ".."; });
  if (name.empty() || name.is_absolute() || leaves) {
    throw InvalidArgument("the asset '{}' lies outside of the SavedModel's folder", filename);
  }
  return dir / "assets" / name;
}

}  // namespace muster::graph
