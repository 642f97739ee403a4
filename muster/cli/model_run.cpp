#include <ATen/Functions.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/cli/model.h"
#include "muster/cli/model_run_flags.h"
#include "muster/cli/python/numpy_text.h"
#include "muster/cli/python/python_literal.h"
#include "muster/cli/saved_model_argument.h"
#include "muster/cli/words.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/npy.h"
#include "muster/data/records/npz.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving/codec/json_tensor.h"

// The texts are those of TensorFlow's saved_model_cli, which other programs read.

namespace muster::cli {
namespace {

using executor::Value;
using executor::Values;
using graph::DataType;
using graph::SignatureDef;
using graph::TensorInfo;
using graph::TensorValue;
using nlohmann::json;

constexpr std::pair<NpyType, DataType> kTypes[] = {
    {NpyType::kUint8, DataType::kUint8},   {NpyType::kInt32, DataType::kInt32},
    {NpyType::kInt64, DataType::kInt64},   {NpyType::kFloat, DataType::kFloat},
    {NpyType::kDouble, DataType::kDouble}, {NpyType::kBool, DataType::kBool},
    {NpyType::kInt8, DataType::kInt8},     {NpyType::kInt16, DataType::kInt16},
    {NpyType::kUint16, DataType::kUint16}, {NpyType::kUint32, DataType::kUint32},
    {NpyType::kUint64, DataType::kUint64}, {NpyType::kHalf, DataType::kHalf},
};

Value value_of(const NpyArray& array) {
  TensorValue tensor;
  tensor.shape.assign(array.shape.begin(), array.shape.end());
  if (array.type == NpyType::kBytes || array.type == NpyType::kUnicode) {
    return executor::StringTensor(npy_strings(array), tensor.shape);
  }
  for (const auto& [theirs, ours] : kTypes) {
    if (theirs == array.type) tensor.dtype = ours;
  }
  tensor.bytes = array.data;
  return executor::to_value(tensor);
}

// Numbers of another type are converted where nothing but digits of fractions is lost.
Value converted(Value value, const TensorInfo& info) {
  auto* const tensor = std::get_if<at::Tensor>(&value);
  if (tensor == nullptr || graph::without_ref(info.dtype) == DataType::kString) return value;
  const at::ScalarType wanted = executor::scalar_type(info.dtype);
  if (tensor->scalar_type() == wanted) return value;
  at::Tensor made = tensor->to(wanted);
  if (!at::isFloatingType(wanted) && !at::equal(made.to(tensor->scalar_type()), *tensor)) {
    throw InvalidArgument("values of {} do not fit {}", executor::describe(value),
                          graph::name_of(info.dtype));
  }
  return made;
}

NpyArray read_array(const std::string& place) {
  if (place.ends_with(']')) {
    const std::size_t open = place.rfind('[');
    if (open != std::string::npos) {
      return read_npz(place.substr(0, open), place.substr(open + 1, place.size() - open - 2));
    }
  }
  return place.ends_with(".npz") ? read_npz(place) : read_npy(place);
}

bool is_int64(const json& value) {
  return value.is_number_integer() &&
         (!value.is_number_unsigned() || std::in_range<std::int64_t>(value.get<std::uint64_t>()));
}

void add_values(const std::string& key, const json& values, ExampleBuilder& builder) {
  if (!values.is_array()) {
    throw InvalidArgument("the feature {} must be a list, but is {}", key, values.dump());
  }
  bool floats = false;
  for (const json& value : values) floats |= value.is_number_float();
  if (values.empty()) builder.add_bytes(key, std::span<const std::string_view>());
  for (const json& value : values) {
    if (floats && value.is_number()) {
      builder.add_float(key, value.get<float>());
    } else if (is_int64(value)) {
      builder.add_int(key, value.get<std::int64_t>());
    } else if (value.is_string()) {
      builder.add_bytes(key, value.get_ref<const std::string&>());
    } else if (value.is_object() && value.contains("b64") && value["b64"].is_string()) {
      builder.add_bytes(key, base64_decode(value["b64"].get_ref<const std::string&>()));
    } else {
      throw InvalidArgument("the feature {} holds {}, which is no number of 64 bits and no string",
                            key, value.dump());
    }
  }
}

// A list of dictionaries of lists as serialised tf.Examples.
Value examples_of(const std::string& text) {
  const std::string as_json = python::python_to_json(text);
  json list;
  try {
    list = json::parse(as_json);
  } catch (const json::exception& error) {
    throw InvalidArgument("{}", error.what());
  }
  if (!list.is_array()) throw InvalidArgument("tf.Examples must be a list of dictionaries");
  std::vector<std::string> examples;
  for (const json& dictionary : list) {
    if (!dictionary.is_object()) {
      throw InvalidArgument("tf.Examples must be a list of dictionaries");
    }
    ExampleBuilder builder;
    for (const auto& [key, values] : dictionary.items()) add_values(key, values, builder);
    examples.push_back(builder.serialize());
  }
  return executor::StringTensor(std::move(examples));
}

/// The parts "key=rest" of a flag.
using Assignments = std::vector<std::pair<std::string, std::string>>;

Assignments assignments(const std::vector<std::string>& parts, const char* flag, const char* form) {
  Assignments all;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == part.size()) {
      throw UsageError("{} \"{}\" format is incorrect. Please follow {}", flag, part, form);
    }
    all.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return all;
}

class Inputs {
 public:
  explicit Inputs(const SignatureDef& signature) : signature_(signature) {}

  // `make(text, info)` makes the value of one input, which replaces that of a flag before.
  template <typename Make>
  void add(const Assignments& given, const char* flag, Make&& make) {
    std::set<std::string_view> here;
    for (const auto& [key, text] : given) {
      const auto info = signature_.inputs.find(key);
      if (info == signature_.inputs.end()) {
        std::vector<std::string> keys;
        for (const auto& row : signature_.inputs) keys.push_back('"' + row.first + '"');
        throw InvalidArgument("\"{}\" is not a valid input key. Please choose from {}", key,
                              fmt::join(keys, ", "));
      }
      try {
        if (!here.insert(key).second) throw UsageError("the input is given twice");
        values_.insert_or_assign(key, make(text, info->second));
      } catch (Error& error) {
        error.add_context(fmt::format("{} {}", flag, key));
        throw;
      }
    }
  }

  const Values& values() const { return values_; }

 private:
  const SignatureDef& signature_;
  Values values_{};
};

Inputs read_inputs(const ModelRunFlags& flags, const SignatureDef& signature) {
  Inputs inputs(signature);
  inputs.add(
      assignments(split(flags.inputs, ';'), "--inputs",
                  "\"<input_key>=<filename>\", or \"<input_key>=<filename>[<variable_name>]\""),
      "--inputs", [](const std::string& place, const TensorInfo& info) {
        return converted(value_of(read_array(place)), info);
      });
  inputs.add(
      assignments(split_outside_quotes(flags.input_exprs, ';'), "--input_exprs",
                  "\"<input_key>=<python expression>\""),
      "--input_exprs", [](const std::string& text, const TensorInfo& info) {
        return executor::to_value(serving::tensor_from_json(python::python_to_json(text), info));
      });
  inputs.add(assignments(split_outside_quotes(flags.input_examples, ';'), "--input_examples",
                         "\"<input_key>=[{'feature': [values]}]\""),
             "--input_examples",
             [](const std::string& text, const TensorInfo&) { return examples_of(text); });
  return inputs;
}

// As numpy.save writes it; strings with the width of the longest.
std::string npy_of(const TensorValue& tensor) {
  const std::vector<std::size_t> shape(tensor.shape.begin(), tensor.shape.end());
  if (tensor.dtype == DataType::kString) return encode_npy(npy_of_strings(shape, tensor.strings));
  for (const auto& [theirs, ours] : kTypes) {
    if (ours == tensor.dtype) {
      return encode_npy({.type = theirs, .shape = shape, .data = tensor.bytes});
    }
  }
  throw Unimplemented("numpy has no type {}", name_of(tensor.dtype));
}

// A name of an output as the name of a file: it may hold no '/', which would lead elsewhere.
Path output_path(const Path& outdir, const std::string& key) {
  if (key.find('/') != std::string::npos) {
    throw InvalidArgument("the output {} cannot be the name of a file", key);
  }
  return outdir / (key + ".npy");
}

void write_output(const ModelRunFlags& flags, const std::string& key, const TensorValue& tensor) {
  const Path path = output_path(flags.outdir, key);
  if (!flags.overwrite && file_exists(path)) {
    throw AlreadyExists(
        "Output file {} already exists. Add \"--overwrite\" to overwrite the existing output "
        "files.",
        path.string());
  }
  file_system_for(path).create_directories(path.parent_path());
  write_file_atomically(path, npy_of(tensor));
  fmt::print("Output {} is saved to {}\n", key, path.string());
}

// numpy has no bfloat16.
TensorValue printable(const Value& value) {
  const auto* const tensor = std::get_if<at::Tensor>(&value);
  const bool is_short = tensor != nullptr && tensor->scalar_type() == at::kBFloat16;
  return executor::to_tensor_value(is_short ? Value(tensor->to(at::kFloat)) : value);
}

void run_model(const ModelRunFlags& flags) {
  const auto tags = tags_of(flags.tag_set);
  const Path dir = find_saved_model(flags.dir);
  const graph::SavedModel saved = graph::read_saved_model(dir);
  const graph::MetaGraph& meta = graph::find_meta_graph(saved, tags);
  const SignatureDef& signature = graph::find_signature(meta, flags.signature_def);
  const Inputs inputs = read_inputs(flags, signature);
  if (inputs.values().empty() && signature.inputs.size() > signature.defaults.size()) {
    throw UsageError("At least one of --inputs, --input_exprs or --input_examples must be given");
  }
  const auto model = executor::ExecutableModel::from(
      meta, dir, {.tags = tags, .signatures = {flags.signature_def}, .limits = flags.limits});
  for (const auto& [key, value] : model.run(flags.signature_def, inputs.values())) {
    const TensorValue tensor = printable(value);
    fmt::print("Result for output key {}:\n{}\n", key, python::numpy_text(tensor));
    if (!flags.outdir.empty()) write_output(flags, key, tensor);
  }
}

}  // namespace

void add_model_run(CLI::App& command) {
  const auto flags = std::make_shared<ModelRunFlags>();
  add_model_run_flags(command, *flags);
  command.callback([flags] { run_model(*flags); });
}

}  // namespace muster::cli
