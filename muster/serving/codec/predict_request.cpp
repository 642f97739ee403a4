#include "muster/serving/codec/predict_request.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/serving/codec/fast_request.h"
#include "muster/serving/codec/json.h"
#include "muster/serving/codec/json_fault_internal.h"
#include "muster/serving/codec/put_element.h"
#include "muster/serving/codec/row_default_internal.h"
#include "muster/serving/codec/signature_defaults.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::SignatureDef;
using graph::TensorValue;
using nlohmann::json;

constexpr std::size_t kMostShownBytes = 256;

// "float", as TensorFlow writes a type in messages.
std::string type_word(DataType type) {
  std::string word(graph::name_of(type));
  if (word.starts_with("DT_")) word.erase(0, 3);
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return word;
}

[[noreturn]] void throw_wrong_type(const json& value, DataType type) {
  throw InvalidArgument("JSON Value: {} Type: {} is not of expected type: {}", shown_json(value),
                        json_type_of(value), type_word(type));
}

bool is_base64_object(const json& value) {
  return value.is_object() && special_number(value) == nullptr && value.contains("b64");
}

// A list or a value that stands for one element, not an object of named inputs.
bool is_value(const json& value) {
  return !value.is_object() || special_number(value) != nullptr || is_base64_object(value);
}

/// Refuses in TensorFlow Serving's words.
struct RequestReader {
  template <typename T>
  static void put_float(const json& value, TensorValue& out) {
    if (const auto special = special_double(value))
      return append_number(static_cast<T>(*special), out);
    if (!value.is_number()) throw_wrong_type(value, out.dtype);
    append_number(static_cast<T>(value.get<double>()), out);
  }

  template <typename T>
  static void put_integer(const json& value, TensorValue& out) {
    if (!value.is_number_integer()) throw_wrong_type(value, out.dtype);
    const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                 : std::in_range<T>(value.get<std::int64_t>());
    if (!fits) throw_wrong_type(value, out.dtype);
    append_number(value.get<T>(), out);
  }

  static void put_bool(const json& value, TensorValue& out) {
    if (!value.is_boolean()) throw_wrong_type(value, out.dtype);
    out.bytes.push_back(value.get<bool>() ? '\1' : '\0');
  }

  static void put_string(const json& value, TensorValue& out) {
    if (value.is_string()) {
      out.strings.push_back(value.get_ref<const std::string&>());
      return;
    }
    if (!is_base64_object(value)) throw_wrong_type(value, out.dtype);
    const std::string* text = base64_text(value);
    if (text == nullptr) {
      throw InvalidArgument("JSON Value: {} not formatted correctly for base64 data",
                            shown_json(value));
    }
    try {
      out.strings.push_back(base64_decode(*text));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument("Unable to base64 decode: {}", error.message());
    }
  }
};

using Put = void (*)(const json& value, TensorValue& out);

/// Takes nested lists into one tensor. The first element of each depth gives the sizes of a part,
/// and all parts have those of the first.
class Filler {
 public:
  explicit Filler(DataType type) : put_(put_of<RequestReader>(graph::without_ref(type))) {
    out_.dtype = graph::without_ref(type);
  }

  void add(const json& value) {
    if (put_ == nullptr) {
      throw Unimplemented("Conversion of JSON Value: {} to type: {}", shown_json(value),
                          type_word(out_.dtype));
    }
    const std::vector<std::int64_t> shape = shape_of(value);
    const std::int64_t size = fill(value, shape, 0);
    if (parts_++ == 0) {
      shape_ = shape;
      size_ = size;
    }
    if (size != size_) throw InvalidArgument("Expecting tensor size: {} but got: {}", size_, size);
    if (shape != shape_) {
      throw InvalidArgument("Expecting shape [{}] but got: [{}]", fmt::join(shape_, ","),
                            fmt::join(shape, ","));
    }
  }

  TensorValue stacked() && {
    out_.shape = shape_;
    out_.shape.insert(out_.shape.begin(), parts_);
    return std::move(out_);
  }
  TensorValue single() && {
    out_.shape = shape_;
    return std::move(out_);
  }

 private:
  static std::vector<std::int64_t> shape_of(const json& value) {
    std::vector<std::int64_t> shape;
    for (const json* part = &value; part->is_array(); part = &part->front()) {
      shape.push_back(static_cast<std::int64_t>(part->size()));
      if (part->empty()) break;
    }
    return shape;
  }

  // How many elements it has put.
  std::int64_t fill(const json& value, const std::vector<std::int64_t>& shape, std::size_t level) {
    if (!value.is_array()) {
      if (level != shape.size()) {
        throw InvalidArgument(
            "JSON Value: {} found at incorrect level: {} in the JSON DOM. Expected at level: {}",
            shown_json(value), level, shape.size());
      }
      put_(value, out_);
      return 1;
    }
    if (level >= shape.size()) {
      throw InvalidArgument("Encountered list at unexpected level: {} expected < {}", level,
                            shape.size());
    }
    if (static_cast<std::int64_t>(value.size()) != shape[level]) {
      throw InvalidArgument(
          "Encountered list at unexpected size: {} at level: {} expected size: {}", value.size(),
          level, shape[level]);
    }
    std::int64_t size = 0;
    for (const json& part : value) size += fill(part, shape, level + 1);
    return size;
  }

  Put put_;
  TensorValue out_{};
  // Those of the first part.
  std::vector<std::int64_t> shape_{};
  std::int64_t size_ = 0;
  std::int64_t parts_ = 0;
};

std::string input_names(const SignatureDef& signature) {
  std::vector<std::string> names;
  names.reserve(signature.inputs.size());
  for (const auto& row : signature.inputs) names.push_back(row.first);
  return fmt::format("{}", fmt::join(names, ","));
}

[[noreturn]] void throw_element(std::size_t index, const std::string* key, const Error& error) {
  const std::string where = key == nullptr ? std::string() : fmt::format(" key: {}", *key);
  throw Error(error.code(),
              fmt::format("Failed to process element: {}{} of 'instances' list. Error: {}: {}",
                          index, where, muster::name_of(error.code()), error.message()));
}

using Fillers = std::map<std::string, Filler, std::less<>>;

using RowDefaults = std::map<std::string, json, std::less<>>;

// An input that the item may leave out, and does, or has null for.
const json* default_of(const json& item, const std::string& name, const RowDefaults& defaults) {
  const auto found = defaults.find(name);
  if (found == defaults.end()) return nullptr;
  const auto value = item.find(name);
  return value == item.end() || value->is_null() ? &found->second : nullptr;
}

bool has_its_keys(const json& item, const SignatureDef& signature, const RowDefaults& defaults) {
  std::size_t keys = 0;
  for (const auto& row : signature.inputs) {
    const bool is_there = item.contains(row.first);
    if (!is_there && !defaults.contains(row.first)) return false;
    keys += is_there ? 1 : 0;
  }
  return keys == item.size();
}

void take_named(const json& item, std::size_t index, const SignatureDef& signature,
                const RowDefaults& defaults, Fillers& fillers) {
  if (!has_its_keys(item, signature, defaults)) {
    throw InvalidArgument(
        "Failed to process element: {} of 'instances' list. JSON object: {} keys must be equal to: "
        "{}",
        index, shown_json(item), input_names(signature));
  }
  for (auto& [name, filler] : fillers) {
    const json* const value = default_of(item, name, defaults);
    try {
      filler.add(value != nullptr ? *value : *item.find(name));
    } catch (const Error& error) {
      throw_element(index, &name, error);
    }
  }
}

void take_bare(const json& item, std::size_t index, Filler& filler) {
  try {
    filler.add(item);
  } catch (const Error& error) {
    throw_element(index, nullptr, error);
  }
}

Tensors row_tensors(const json& instances, const SignatureDef& signature) {
  Fillers fillers;
  for (const auto& [name, info] : signature.inputs) fillers.emplace(name, Filler(info.dtype));
  const RowDefaults defaults = row_defaults(signature, instances.size());
  const bool only_values = is_value(instances.front());
  if (only_values && fillers.size() != 1) {
    throw InvalidArgument(
        "instances is a plain list, but expecting list of objects as multiple input tensors "
        "required as per tensorinfo_map");
  }
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const json& item = instances[i];
    if (is_value(item) != only_values) {
      throw InvalidArgument("Expecting {} at item {} of input list",
                            only_values ? "value/list but got object" : "object but got list", i);
    }
    if (only_values) {
      take_bare(item, i, fillers.begin()->second);
    } else {
      take_named(item, i, signature, defaults, fillers);
    }
  }
  Tensors tensors;
  for (auto& [name, filler] : fillers) tensors.emplace(name, std::move(filler).stacked());
  return tensors;
}

// A column with the default of a row instead of each null.
json without_nulls(json column, const std::string& name, const SignatureDef& signature) {
  if (!column.is_array() || std::ranges::none_of(column, &json::is_null)) return column;
  const RowDefaults defaults = row_defaults(signature, column.size());
  const auto row = defaults.find(name);
  if (row == defaults.end()) return column;
  for (json& value : column) {
    if (value.is_null()) value = row->second;
  }
  return column;
}

Tensors column_tensors(const json& inputs, const SignatureDef& signature) {
  Tensors tensors;
  if (is_value(inputs)) {
    if (signature.inputs.size() != 1) {
      throw InvalidArgument(
          "inputs is a plain value/list, but expecting an object as multiple input tensors "
          "required as per tensorinfo_map");
    }
    const auto& [name, info] = *signature.inputs.begin();
    Filler filler(info.dtype);
    filler.add(inputs);
    tensors.emplace(name, std::move(filler).single());
    return tensors;
  }
  for (const auto& [name, info] : signature.inputs) {
    const auto value = inputs.find(name);
    const bool has_default = signature.defaults.contains(name);
    if (has_default && (value == inputs.end() || value->is_null())) continue;
    if (value == inputs.end()) {
      throw InvalidArgument("Missing named input: {} in 'inputs' object.", name);
    }
    Filler filler(info.dtype);
    filler.add(has_default ? without_nulls(*value, name, signature) : *value);
    tensors.emplace(name, std::move(filler).single());
  }
  add_defaults(signature, tensors);
  return tensors;
}

}  // namespace

std::string shown_json(const json& value) {
  // Written by hand and no further than it is shown: a value may be as large as a request.
  std::string out;
  const auto write = [&](const auto& self, const json& part) -> void {
    if (out.size() > kMostShownBytes) return;
    if (const std::string* word = special_number(part)) {
      out += *word;
    } else if (part.is_array()) {
      out += '[';
      for (std::size_t i = 0; i < part.size() && out.size() <= kMostShownBytes; ++i) {
        if (i > 0) out += ',';
        self(self, part[i]);
      }
      out += ']';
    } else if (part.is_object()) {
      out += '{';
      for (auto row = part.begin(); row != part.end() && out.size() <= kMostShownBytes; ++row) {
        if (row != part.begin()) out += ',';
        out += json_string_lossy(row.key().substr(0, kMostShownBytes)) + ":";
        self(self, row.value());
      }
      out += '}';
    } else if (part.is_string()) {
      const auto& text = part.get_ref<const std::string&>();
      out += json_string_lossy(std::string_view(text).substr(0, kMostShownBytes));
    } else {
      out += part.dump();
    }
  };
  write(write, value);
  if (out.size() > kMostShownBytes) out.resize(kMostShownBytes);
  return out;
}

struct PredictRequest::Impl {
  // Where it takes the request, nothing else here is used.
  std::optional<FastRequest> fast{};
  json body{};
  const json* values = nullptr;
  bool row_form = true;
  std::string signature_name{};

  void read(std::string_view text);
};

PredictRequest::PredictRequest(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PredictRequest::~PredictRequest() = default;
PredictRequest::PredictRequest(PredictRequest&&) noexcept = default;
PredictRequest& PredictRequest::operator=(PredictRequest&&) noexcept = default;

const std::string& PredictRequest::signature_name() const { return impl_->signature_name; }
bool PredictRequest::is_row_form() const { return impl_->row_form; }

std::string signature_name_of(const json& body) {
  const auto name = body.find("signature_name");
  if (name == body.end()) return std::string(graph::kDefaultSignature);
  if (!name->is_string()) {
    throw InvalidArgument(
        "JSON Value: {} not formatted correctly. 'signature_name' key must be a string value.",
        shown_json(body));
  }
  const auto& text = name->get_ref<const std::string&>();
  return text.empty() ? std::string(graph::kDefaultSignature) : text;
}

json parse_request_object(std::string_view text) {
  text = without_byte_order_mark(text);
  if (text.find_first_not_of(" \t\r\n") == text.npos) {
    throw InvalidArgument("JSON Parse error: The document is empty");
  }
  json body;
  try {
    body = parse_json(text);
  } catch (const JsonSyntaxError& error) {
    const auto fault = find_json_fault(text);
    if (!fault) throw InvalidArgument("JSON Parse error: {}", error.message());
    throw InvalidArgument("JSON Parse error: {} at offset: {}", fault->reason, fault->offset);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("JSON Parse error: {}", error.message());
  }
  if (!body.is_object()) throw InvalidArgument("JSON Value: {} Is not object", shown_json(body));
  return body;
}

void PredictRequest::Impl::read(std::string_view text) {
  body = parse_request_object(text);
  signature_name = signature_name_of(body);
  const auto instances = body.find("instances");
  const auto inputs = body.find("inputs");
  if (instances != body.end() && inputs != body.end()) {
    throw InvalidArgument(
        "JSON Value: {} Not formatted correctly expecting only one of 'inputs' or 'instances' keys "
        "to exist ",
        shown_json(body));
  }
  if (instances == body.end() && inputs == body.end()) {
    throw InvalidArgument("Missing 'inputs' or 'instances' key");
  }
  row_form = instances != body.end();
  values = row_form ? &*instances : &*inputs;
  if (row_form && !values->is_array()) {
    throw InvalidArgument("JSON Value: {} Expecting 'instances' to be an list/array",
                          shown_json(*values));
  }
  if (row_form && values->empty()) {
    throw InvalidArgument("JSON Value: {} No values in 'instances' array", shown_json(body));
  }
}

PredictRequest PredictRequest::from_json(std::string_view text) {
  auto impl = std::make_unique<Impl>();
  impl->fast = FastRequest::parse(text);
  if (impl->fast) {
    impl->row_form = impl->fast->is_row_form();
    impl->signature_name = impl->fast->signature_name();
  } else {
    impl->read(text);
  }
  return PredictRequest(std::move(impl));
}

Tensors PredictRequest::tensors(const SignatureDef& signature) const {
  if (!impl_->fast) {
    return impl_->row_form ? row_tensors(*impl_->values, signature)
                           : column_tensors(*impl_->values, signature);
  }
  if (auto tensors = impl_->fast->tensors(signature)) return std::move(*tensors);
  // It says what is wrong, if anything is.
  Impl slow;
  slow.read(impl_->fast->text());
  return slow.row_form ? row_tensors(*slow.values, signature)
                       : column_tensors(*slow.values, signature);
}

}  // namespace muster::serving
