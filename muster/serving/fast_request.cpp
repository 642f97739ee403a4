#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/serving/fast_request_internal.h"
#include "muster/serving/json.h"
#include "muster/serving/put_element_internal.h"

namespace muster::serving {
namespace {

namespace dom = simdjson::dom;
using graph::DataType;
using graph::SignatureDef;
using graph::TensorValue;

/// Parsers with their memory, which are reused: allocating it again costs more than parsing a large
/// text.
class Parsers {
 public:
  std::unique_ptr<dom::parser> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<dom::parser>();
    auto parser = std::move(free_.back());
    free_.pop_back();
    return parser;
  }
  void give(std::unique_ptr<dom::parser> parser) {
    const std::lock_guard lock(mutex_);
    if (free_.size() < kMost && parser->capacity() <= kMostBytes) {
      free_.push_back(std::move(parser));
    }
  }
  static Parsers& all() {
    static Parsers parsers;
    return parsers;
  }

 private:
  static constexpr std::size_t kMost = 8;
  static constexpr std::size_t kMostBytes = 2 << 20;
  std::mutex mutex_;
  std::vector<std::unique_ptr<dom::parser>> free_;
};

// The library counts the elements of a list up to here.
constexpr std::size_t kMostCounted = 0xFFFFFF;

/// False: not taken.
struct FastReader {
  template <typename T>
  static bool put_float(const dom::element& value, TensorValue& out) {
    double number = 0;  // Whole numbers become one too.
    if (value.get_double().get(number) != simdjson::SUCCESS) return false;
    append_number(static_cast<T>(number), out);
    return true;
  }

  template <typename T>
  static bool put_integer(const dom::element& value, TensorValue& out) {
    if (value.is_int64()) {
      const std::int64_t number = value.get_int64().value_unsafe();
      if (!std::in_range<T>(number)) return false;
      append_number(static_cast<T>(number), out);
      return true;
    }
    if (!value.is_uint64()) return false;
    const std::uint64_t number = value.get_uint64().value_unsafe();
    if (!std::in_range<T>(number)) return false;
    append_number(static_cast<T>(number), out);
    return true;
  }

  static bool put_bool(const dom::element& value, TensorValue& out) {
    bool truth = false;
    if (value.get_bool().get(truth) != simdjson::SUCCESS) return false;
    out.bytes.push_back(truth ? '\1' : '\0');
    return true;
  }

  static bool put_string(const dom::element& value, TensorValue& out) {
    std::string_view text;
    if (value.get_string().get(text) == simdjson::SUCCESS) {
      out.strings.emplace_back(text);
      return true;
    }
    dom::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS || object.size() != 1 ||
        object["b64"].get_string().get(text) != simdjson::SUCCESS) {
      return false;
    }
    try {
      out.strings.push_back(base64_decode(text));
      return true;
    } catch (const InvalidArgument&) {
      return false;
    }
  }
};

using Put = bool (*)(const dom::element& value, TensorValue& out);

/// Takes nested lists into one tensor, as PredictRequest does. False: not taken.
class FastFiller {
 public:
  explicit FastFiller(DataType type) : put_(put_of<FastReader>(graph::without_ref(type))) {
    out_.dtype = graph::without_ref(type);
  }

  std::int64_t parts() const { return parts_; }

  bool add(const dom::element& value) {
    if (put_ == nullptr) return false;
    if (parts_ == 0 && !find_shape(value)) return false;
    ++parts_;
    return fill(value, 0);
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
  bool find_shape(dom::element value) {
    dom::array list;
    while (value.get_array().get(list) == simdjson::SUCCESS) {
      const std::size_t size = list.size();
      if (size >= kMostCounted) return false;
      shape_.push_back(static_cast<std::int64_t>(size));
      if (size == 0) break;
      value = *list.begin();
    }
    return true;
  }

  bool fill(const dom::element& value, std::size_t level) {
    dom::array list;
    if (value.get_array().get(list) != simdjson::SUCCESS) {
      return level == shape_.size() && put_(value, out_);
    }
    if (level >= shape_.size() || static_cast<std::int64_t>(list.size()) != shape_[level]) {
      return false;
    }
    if (level + 1 == shape_.size()) {
      // A list here is one too many, which no type takes.
      return std::ranges::all_of(list, [&](const dom::element& part) { return put_(part, out_); });
    }
    return std::ranges::all_of(list,
                               [&](const dom::element& part) { return fill(part, level + 1); });
  }

  Put put_;
  TensorValue out_{};
  std::vector<std::int64_t> shape_{};
  std::int64_t parts_ = 0;
};

using FastFillers = std::map<std::string, FastFiller, std::less<>>;

bool is_base64_object(const dom::element& value) {
  return value.is_object() && value["b64"].error() == simdjson::SUCCESS;
}

/// Finds the filler of a field. Instances mostly have their fields in the order of the first one.
class FieldOrder {
 public:
  explicit FieldOrder(FastFillers& fillers) : fillers_(fillers) {}

  /// Of the field that is the `place`-th of its instance; null if there is none of the name.
  FastFiller* find(std::string_view name, std::size_t place) {
    if (place < seen_.size() && seen_[place]->first == name) return &seen_[place]->second;
    const auto found = fillers_.find(name);
    if (found == fillers_.end()) return nullptr;
    if (place == seen_.size()) seen_.push_back(found);
    return &found->second;
  }

 private:
  FastFillers& fillers_;
  std::vector<FastFillers::iterator> seen_{};
};

/// The field of every instance that stands for it.
struct KeyField {
  std::string_view name{};
  bool is_input = false;
  std::vector<std::string> values{};
};

// Each input once, the key, if there is one, once, and nothing else.
bool take_named(const dom::object& item, std::int64_t number, std::size_t inputs, FieldOrder& order,
                KeyField& key) {
  const bool has_key = !key.name.empty();
  if (item.size() != inputs + (has_key && !key.is_input ? 1 : 0)) return false;
  const std::size_t keys = key.values.size();
  std::size_t place = 0;
  for (const auto& field : item) {
    if (has_key && field.key == key.name) {
      key.values.push_back(simdjson::minify(field.value));
      if (!key.is_input) continue;
    }
    FastFiller* const filler = order.find(field.key, place++);
    // One that has this instance's value already would get a second one, and another none.
    if (filler == nullptr || filler->parts() != number || !filler->add(field.value)) return false;
  }
  return key.values.size() == keys + (has_key ? 1 : 0);
}

std::optional<Tensors> row_tensors(const dom::array& instances, const SignatureDef& signature,
                                   KeyField& key) {
  if (signature.inputs.empty()) return std::nullopt;
  FastFillers fillers;
  for (const auto& [name, info] : signature.inputs) fillers.emplace(name, FastFiller(info.dtype));
  const dom::element first = *instances.begin();
  const bool only_values = !first.is_object() || is_base64_object(first);
  if (only_values && (fillers.size() != 1 || !key.name.empty())) return std::nullopt;
  FieldOrder order(fillers);
  std::int64_t number = 0;
  for (const dom::element item : instances) {
    if (only_values) {
      if (!fillers.begin()->second.add(item)) return std::nullopt;
    } else {
      dom::object named;
      if (item.get_object().get(named) != simdjson::SUCCESS || is_base64_object(item) ||
          !take_named(named, number++, fillers.size(), order, key)) {
        return std::nullopt;
      }
    }
  }
  Tensors tensors;
  for (auto& [name, filler] : fillers) tensors.emplace(name, std::move(filler).stacked());
  return tensors;
}

std::optional<Tensors> column_tensors(const dom::element& inputs, const SignatureDef& signature) {
  Tensors tensors;
  const auto add = [&](const auto& input, const dom::element& value) {
    FastFiller filler(input.second.dtype);
    return filler.add(value) && tensors.emplace(input.first, std::move(filler).single()).second;
  };
  if (!inputs.is_object() || is_base64_object(inputs)) {
    if (signature.inputs.size() != 1 || !add(*signature.inputs.begin(), inputs)) {
      return std::nullopt;
    }
    return tensors;
  }
  const dom::object named(inputs);
  for (const auto& field : named) {
    const auto input = signature.inputs.find(field.key);
    if (input == signature.inputs.end()) continue;
    if (!add(*input, field.value)) return std::nullopt;  // Or it is there twice.
  }
  if (tensors.size() != signature.inputs.size()) return std::nullopt;
  return tensors;
}

}  // namespace

struct FastRequest::Impl {
  // With the zeros that the library reads behind its end.
  std::string padded{};
  std::size_t size = 0;
  std::unique_ptr<dom::parser> parser = Parsers::all().take();
  dom::element values{};
  bool row_form = true;
  std::string signature_name{graph::kDefaultSignature};

  Impl() = default;
  ~Impl() { Parsers::all().give(std::move(parser)); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool parse(std::string_view text) {
    size = text.size();
    padded.reserve(size + simdjson::SIMDJSON_PADDING);
    padded.append(text).append(simdjson::SIMDJSON_PADDING, '\0');
    if (parser->capacity() < size || parser->max_depth() != kMostJsonDepth) {
      if (parser->allocate(size, kMostJsonDepth) != simdjson::SUCCESS) return false;
    }
    dom::object body;
    if (parser->parse(padded.data(), size, false).get_object().get(body) != simdjson::SUCCESS) {
      return false;
    }
    return take(body);
  }

  // Exactly one of the two forms, and nothing twice.
  bool take(const dom::object& body) {
    bool has_values = false;
    bool has_name = false;
    for (const auto& field : body) {
      if (field.key == "instances" || field.key == "inputs") {
        if (std::exchange(has_values, true)) return false;
        row_form = field.key == "instances";
        values = field.value;
      } else if (field.key == "signature_name") {
        std::string_view name;
        if (std::exchange(has_name, true)) return false;
        if (field.value.get_string().get(name) != simdjson::SUCCESS) return false;
        if (!name.empty()) signature_name = name;
      }
    }
    if (!has_values || !row_form) return has_values;
    dom::array instances;
    return values.get_array().get(instances) == simdjson::SUCCESS && instances.size() > 0;
  }
};

FastRequest::FastRequest(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FastRequest::~FastRequest() = default;
FastRequest::FastRequest(FastRequest&&) noexcept = default;
FastRequest& FastRequest::operator=(FastRequest&&) noexcept = default;

std::optional<FastRequest> FastRequest::parse(std::string_view text) {
  auto impl = std::make_unique<Impl>();
  if (!impl->parse(text)) return std::nullopt;
  return FastRequest(std::move(impl));
}

const std::string& FastRequest::signature_name() const { return impl_->signature_name; }
bool FastRequest::is_row_form() const { return impl_->row_form; }
std::string_view FastRequest::text() const {
  return std::string_view(impl_->padded).substr(0, impl_->size);
}

std::optional<Tensors> FastRequest::tensors(const SignatureDef& signature) const {
  if (!impl_->row_form) return column_tensors(impl_->values, signature);
  KeyField none;
  return row_tensors(dom::array(impl_->values), signature, none);
}

std::optional<Tensors> FastRequest::tensors(const SignatureDef& signature,
                                            std::string_view key_field,
                                            std::vector<std::string>& keys) const {
  KeyField key{.name = key_field, .is_input = signature.inputs.contains(key_field)};
  auto tensors = row_tensors(dom::array(impl_->values), signature, key);
  if (tensors) keys = std::move(key.values);
  return tensors;
}

}  // namespace muster::serving
