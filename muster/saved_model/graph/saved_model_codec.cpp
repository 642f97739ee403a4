// SavedModel and MetaGraphDef.
#include "muster/saved_model/graph/codec_internal.h"
#include "muster/saved_model/graph/message_fields_internal.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/saved_model/graph/saved_model_codec_internal.h"

namespace muster::graph {
namespace {

using wire::kBytes;
using wire::kFixed32;
using wire::kVarint;
using wire::tag;

constexpr std::tuple kSparseFields{
    PlainField{1, &CooSparse::values, "values_tensor_name"},
    PlainField{2, &CooSparse::indices, "indices_tensor_name"},
    PlainField{3, &CooSparse::dense_shape, "dense_shape_tensor_name"},
};
constexpr std::tuple kSaverFields{
    PlainField{1, &Saver::filename_tensor, "filename_tensor_name"},
    PlainField{2, &Saver::save_tensor, "save_tensor_name"},
    PlainField{3, &Saver::restore_op, "restore_op_name"},
    PlainField{4, &Saver::max_to_keep},
    PlainField{5, &Saver::sharded},
    PlainField{6, &Saver::keep_checkpoint_every_n_hours},
    PlainField{7, &Saver::version},
};
// Others come before and after these.
constexpr std::tuple kInfoFields{
    PlainField{4, &MetaGraph::tags, "a tag"},
    PlainField{5, &MetaGraph::tensorflow_version, "tensorflow_version"},
    PlainField{6, &MetaGraph::tensorflow_git_version, "tensorflow_git_version"},
    PlainField{7, &MetaGraph::stripped_default_attrs},
};

// ------------------------------------------------------------------------------------ reading

CooSparse decode_sparse(const Message& message, Decoding& decoding) {
  CooSparse out;
  decode_plain(message, nullptr, decoding, kSparseFields, out);
  return out;
}

TensorInfo decode_tensor_info(const Message& message, Decoding& decoding) {
  TensorInfo out;
  bool has_shape = false;
  for_each_field(message, &out.extra, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        out.name = take_name(reader, decoding, "the name of a tensor");
        out.sparse.reset();
        return true;
      case tag(2, kVarint):
        out.dtype = take_type(reader);
        return true;
      case tag(3, kBytes):
        decode_shape(take_message(reader, decoding), decoding, out.shape);
        has_shape = true;
        return true;
      case tag(4, kBytes):
        out.sparse = decode_sparse(take_message(reader, decoding), decoding);
        out.name.clear();
        return true;
      default:
        return false;
    }
  });
  // A tensor of a type has a shape, and one that is not told may be any; an asset has neither.
  if (!has_shape && out.dtype != DataType::kInvalid) out.shape = Shape::any();
  return out;
}

SignatureDef decode_signature(const Message& message, Decoding& decoding) {
  SignatureDef out;
  const auto info = [&](const Message& value) { return decode_tensor_info(value, decoding); };
  for_each_field(message, &out.extra, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        take_entry(reader, decoding, "input", out.inputs, info);
        return true;
      case tag(2, kBytes):
        take_entry(reader, decoding, "output", out.outputs, info);
        return true;
      case tag(3, kBytes):
        out.method_name = take_name(reader, decoding, "method_name");
        return true;
      case tag(4, kBytes):
        take_entry(reader, decoding, "default of input", out.defaults, [&](const Message& value) {
          TensorValue tensor;
          decode_tensor(value, decoding, tensor);
          return tensor;
        });
        return true;
      default:
        return false;
    }
  });
  return out;
}

Saver decode_saver(const Message& message, Decoding& decoding) {
  Saver out;
  out.version = 0;
  decode_plain(message, &out.extra, decoding, kSaverFields, out);
  return out;
}

// The values of NodeList, BytesList and AnyList.
std::vector<std::string> decode_texts(const Message& message, Decoding& decoding) {
  std::vector<std::string> out;
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    if (field != tag(1, kBytes)) return false;
    out.push_back(take_bytes(reader, decoding));
    return true;
  });
  return out;
}

template <typename T, typename Take>
std::vector<T> decode_numbers(const Message& message, Decoding& decoding, wire::Type type,
                              Take&& take) {
  std::vector<T> out;
  const auto add = [&](wire::Reader& reader) { out.push_back(take(reader)); };
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    return take_repeated(field, 1, type, reader, decoding, add);
  });
  return out;
}

Collection decode_collection(const Message& message, Decoding& decoding) {
  Collection out;
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        out.value = Collection::Nodes{decode_texts(take_message(reader, decoding), decoding)};
        return true;
      case tag(2, kBytes):
        out.value = Collection::Bytes{decode_texts(take_message(reader, decoding), decoding)};
        return true;
      case tag(3, kBytes):
        out.value = decode_numbers<std::int64_t>(take_message(reader, decoding), decoding, kVarint,
                                                 take_int);
        return true;
      case tag(4, kBytes):
        out.value =
            decode_numbers<float>(take_message(reader, decoding), decoding, kFixed32,
                                  [](wire::Reader& values) { return values.fixed32_float(); });
        return true;
      case tag(5, kBytes):
        out.value = Collection::Anys{decode_texts(take_message(reader, decoding), decoding)};
        return true;
      default:
        return false;
    }
  });
  return out;
}

void decode_op_list(const Message& message, Decoding& decoding, std::vector<OpDef>& out) {
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    if (field != tag(1, kBytes)) return false;
    OpDef op;
    try {
      decode_op(take_message(reader, decoding), decoding, op);
    } catch (Error& error) {
      error.add_context(fmt::format("operation '{}'", op.name));
      throw;
    }
    out.push_back(std::move(op));
    return true;
  });
}

void decode_info(const Message& message, Decoding& decoding, MetaGraph& out) {
  for_each_field(message, &out.info_extra, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        out.meta_graph_version = take_name(reader, decoding, "meta_graph_version");
        return true;
      case tag(2, kBytes):
        decode_op_list(take_message(reader, decoding), decoding, out.stripped_ops);
        return true;
      case tag(8, kBytes):
        take_entry(reader, decoding, "alias of function", out.function_aliases,
                   [](const Message& value) { return std::string(value.bytes); });
        return true;
      default:
        return take_plain(field, reader, decoding, kInfoFields, out);
    }
  });
}

void decode_meta_graph(const Message& message, Decoding& decoding, MetaGraph& out) {
  for_each_field(message, &out.extra, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        decode_info(take_message(reader, decoding), decoding, out);
        return true;
      case tag(2, kBytes):
        decode_graph(take_message(reader, decoding), decoding, out.graph);
        return true;
      case tag(3, kBytes):
        out.saver = decode_saver(take_message(reader, decoding), decoding);
        return true;
      case tag(4, kBytes):
        take_entry(reader, decoding, "collection", out.collections,
                   [&](const Message& value) { return decode_collection(value, decoding); });
        return true;
      case tag(5, kBytes):
        take_entry(reader, decoding, "signature", out.signatures,
                   [&](const Message& value) { return decode_signature(value, decoding); });
        return true;
      case tag(6, kBytes):
        out.assets.push_back(decode_asset(take_message(reader, decoding), decoding));
        return true;
      case tag(7, kBytes):
        out.object_graph = take_bytes(reader, decoding);
        return true;
      default:
        return false;
    }
  });
}

// ------------------------------------------------------------------------------------ writing

std::string encode_tensor_info(const TensorInfo& info) {
  std::string out;
  if (!info.sparse) put_bytes(1, info.name, out);
  put_type(2, info.dtype, out);
  // A record that only names a tensor, as an asset does, has neither type nor shape.
  if (info.dtype != DataType::kInvalid || info.shape != Shape())
    put_bytes_always(3, encode_shape(info.shape), out);
  if (info.sparse) {
    std::string sparse;
    put_plain(*info.sparse, kSparseFields, sparse);
    put_bytes_always(4, sparse, out);
  }
  return out + info.extra;
}

std::string encode_saver(const Saver& saver) {
  std::string out;
  put_plain(saver, kSaverFields, out);
  return out + saver.extra;
}

std::string texts_message(const std::vector<std::string>& texts) {
  std::string out;
  put_all(1, texts, out);
  return out;
}

struct EncodeCollection {
  std::string& out;

  void operator()(std::monostate) const {}
  void operator()(const Collection::Nodes& nodes) const {
    put_bytes_always(1, texts_message(nodes.names), out);
  }
  void operator()(const Collection::Bytes& bytes) const {
    put_bytes_always(2, texts_message(bytes.values), out);
  }
  void operator()(const Collection::Anys& anys) const {
    put_bytes_always(5, texts_message(anys.values), out);
  }
  void operator()(const std::vector<std::int64_t>& numbers) const {
    put_list(3, numbers, append_number);
  }
  void operator()(const std::vector<float>& numbers) const { put_list(4, numbers, append_float); }

 private:
  template <typename Values, typename Append>
  void put_list(std::uint32_t field, const Values& numbers, Append&& append) const {
    std::string list;
    put_packed(1, numbers, list, append);
    put_bytes_always(field, list, out);
  }
};

std::string encode_info(const MetaGraph& meta) {
  std::string out;
  put_bytes(1, meta.meta_graph_version, out);
  std::string ops;
  for (const OpDef& op : meta.stripped_ops) put_bytes_always(1, encode_op(op), ops);
  put_bytes(2, ops, out);
  put_plain(meta, kInfoFields, out);
  for (const auto& [name, alias] : meta.function_aliases) put_entry(8, name, alias, out);
  return out + meta.info_extra;
}

std::string encode_meta_graph(const MetaGraph& meta) {
  std::string out;
  put_bytes_always(1, encode_info(meta), out);
  put_bytes_always(2, encode_graph(meta.graph), out);
  if (meta.saver) put_bytes_always(3, encode_saver(*meta.saver), out);
  for (const auto& [name, collection] : meta.collections) {
    std::string value;
    std::visit(EncodeCollection{value}, collection.value);
    put_entry(4, name, value, out);
  }
  for (const auto& [key, signature] : meta.signatures) {
    put_entry(5, key, encode_signature(signature), out);
  }
  for (const AssetFile& asset : meta.assets) {
    std::string value;
    put_bytes_always(1, encode_tensor_info(asset.tensor), value);
    put_bytes(2, asset.filename, value);
    put_bytes_always(6, value, out);
  }
  put_bytes(7, meta.object_graph, out);
  return out + meta.extra;
}

}  // namespace

AssetFile decode_asset(const Message& message, Decoding& decoding) {
  AssetFile out;
  for_each_field(message, nullptr, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kBytes):
        out.tensor = decode_tensor_info(take_message(reader, decoding), decoding);
        return true;
      case tag(2, kBytes):
        out.filename = take_name(reader, decoding, "the name of an asset");
        return true;
      default:
        return false;
    }
  });
  return out;
}

std::string encode_signature(const SignatureDef& signature) {
  std::string out;
  for (const auto& [key, info] : signature.inputs) put_entry(1, key, encode_tensor_info(info), out);
  for (const auto& [key, info] : signature.outputs)
    put_entry(2, key, encode_tensor_info(info), out);
  put_bytes(3, signature.method_name, out);
  for (const auto& [key, value] : signature.defaults) put_entry(4, key, encode_tensor(value), out);
  return out + signature.extra;
}

std::string encode_saved_model(const SavedModel& model) {
  std::string out;
  put_int(1, model.schema_version, out);
  for (const MetaGraph& meta : model.meta_graphs) put_bytes_always(2, encode_meta_graph(meta), out);
  out += model.extra;
  check_message_size(out, "a SavedModel");
  return out;
}

SavedModel decode_saved_model(std::string_view bytes, const GraphLimits& limits) {
  check_limit(bytes.size(), limits.file_bytes, "the size of the file", "file_bytes");
  Decoding decoding{limits};
  SavedModel model;
  model.schema_version = 0;
  for_each_field({bytes, 0}, &model.extra, [&](std::uint32_t field, wire::Reader& reader) {
    switch (field) {
      case tag(1, kVarint):
        model.schema_version = take_int(reader);
        return true;
      case tag(2, kBytes):
        decode_meta_graph(take_message(reader, decoding), decoding,
                          model.meta_graphs.emplace_back());
        return true;
      default:
        return false;
    }
  });
  return model;
}

}  // namespace muster::graph
