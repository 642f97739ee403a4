#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/serving/codec/fast_request.h"
#include "muster/serving/codec/json.h"
#include "muster/serving/codec/put_element.h"

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

/// One of them, for as long as this lives.
class LentParser {
 public:
  LentParser() = default;
  ~LentParser() { Parsers::all().give(std::move(parser_)); }
  LentParser(const LentParser&) = delete;
  LentParser& operator=(const LentParser&) = delete;

  bool make_room(std::size_t bytes) {
    if (parser_->capacity() >= bytes && parser_->max_depth() == kMostJsonDepth) return true;
    return parser_->allocate(std::max(bytes, dom::MINIMAL_BATCH_SIZE), kMostJsonDepth) ==
           simdjson::SUCCESS;
  }
  dom::parser* operator->() { return parser_.get(); }

 private:
  std::unique_ptr<dom::parser> parser_ = Parsers::all().take();
};

/// A text with the zeros that the library reads after its end.
class PaddedText {
 public:
  void reserve(std::size_t bytes) { text_.reserve(bytes + simdjson::SIMDJSON_PADDING); }
  void append(std::string_view text) {
    text_.append(text);
    size_ = text_.size();
  }
  /// Nothing is appended any more.
  void end() { text_.append(simdjson::SIMDJSON_PADDING, '\0'); }
  const char* data() const { return text_.data(); }
  std::size_t size() const { return size_; }
  std::string_view view() const { return std::string_view(text_).substr(0, size_); }

 private:
  std::string text_{};
  std::size_t size_ = 0;
};

// Whitespace that JSON allows between values.
constexpr std::string_view kBlanks = " \t\r\n";
// A value after all others.
constexpr std::string_view kLastLine = "[]";
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

  // For so many values that are no lists.
  void reserve(std::size_t parts) {
    if (out_.dtype == DataType::kString) {
      out_.strings.reserve(parts);
    } else {
      out_.bytes.reserve(parts * sizeof(double));
    }
  }

  bool add(const dom::element& value) {
    if (put_ == nullptr) return false;
    if (parts_ == 0 && !find_shape(value)) return false;
    ++parts_;
    // Most values are no lists, and a list instead of one is what no type takes.
    return shape_.empty() ? put_(value, out_) : fill(value, 0);
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

/// Filler of an input, whose name the signature owns.
struct NamedFiller {
  std::string_view name;
  FastFiller filler;
};

bool is_base64_object(const dom::element& value) {
  return value.is_object() && value["b64"].error() == simdjson::SUCCESS;
}

/// The field of every instance that stands for it.
struct KeyField {
  std::string_view name{};
  bool is_input = false;
  std::vector<std::string> values{};
};

/// Takes instances one after another into the inputs of a signature. False: not taken.
class RowFiller {
 public:
  RowFiller(const SignatureDef& signature, std::size_t rows, KeyField& key) : key_(key) {
    fillers_.reserve(signature.inputs.size());
    for (const auto& [name, info] : signature.inputs) {
      fillers_.push_back({name, FastFiller(info.dtype)});
      fillers_.back().filler.reserve(rows);
    }
    // In others such a field is one too many.
    may_have_base64_ = signature.inputs.contains("b64") || key_.name == "b64";
  }

  bool add(const dom::element& item) {
    if (count_ == 0 && !begin(item)) return false;
    if (only_values_) return fillers_.front().filler.add(item) && ++count_ > 0;
    dom::object named;
    return item.get_object().get(named) == simdjson::SUCCESS &&
           !(may_have_base64_ && is_base64_object(item)) && add_named(named) && ++count_ > 0;
  }

  Tensors tensors() && {
    Tensors made;
    made.reserve(fillers_.size());
    for (auto& [name, filler] : fillers_) made.emplace(name, std::move(filler).stacked());
    return made;
  }

 private:
  // The first instance says what the others are.
  bool begin(const dom::element& item) {
    only_values_ = !item.is_object() || is_base64_object(item);
    return !fillers_.empty() && !(only_values_ && (fillers_.size() != 1 || !key_.name.empty()));
  }

  // Each input once, the key, if there is one, once, and nothing else.
  bool add_named(const dom::object& item) {
    const bool has_key = !key_.name.empty();
    if (item.size() != fillers_.size() + (has_key && !key_.is_input ? 1 : 0)) return false;
    const std::size_t keys = key_.values.size();
    std::size_t place = 0;
    for (const auto& field : item) {
      if (has_key && field.key == key_.name) {
        key_.values.push_back(simdjson::minify(field.value));
        if (!key_.is_input) continue;
      }
      FastFiller* const filler = find(field.key, place++);
      // One that has this instance's value already would get a second one, and another none.
      if (filler == nullptr || filler->parts() != count_ || !filler->add(field.value)) return false;
    }
    return key_.values.size() == keys + (has_key ? 1 : 0);
  }

  // Filler of the field that is the `place`-th of its instance; null if no input has the name.
  // Instances mostly have their fields in the order of the first one.
  FastFiller* find(std::string_view name, std::size_t place) {
    if (place < seen_.size() && seen_[place]->name == name) return &seen_[place]->filler;
    const auto found = std::ranges::lower_bound(fillers_, name, {}, &NamedFiller::name);
    if (found == fillers_.end() || found->name != name) return nullptr;
    if (place == seen_.size()) seen_.push_back(&*found);
    return &found->filler;
  }

  KeyField& key_;
  // By name, as the signature has them.
  std::vector<NamedFiller> fillers_{};
  std::vector<NamedFiller*> seen_{};
  bool may_have_base64_ = false;
  bool only_values_ = false;
  std::int64_t count_ = 0;
};

std::optional<Tensors> row_tensors(const dom::array& instances, const SignatureDef& signature,
                                   KeyField& key) {
  RowFiller filler(signature, instances.size(), key);
  for (const dom::element item : instances) {
    if (!filler.add(item)) return std::nullopt;
  }
  return std::move(filler).tensors();
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
  PaddedText text{};
  LentParser parser{};
  dom::element values{};
  bool row_form = true;
  std::string signature_name{graph::kDefaultSignature};

  bool parse(std::string_view given) {
    text.reserve(given.size());
    text.append(given);
    text.end();
    if (!parser.make_room(text.size())) return false;
    dom::object body;
    return parser->parse(text.data(), text.size(), false).get_object().get(body) ==
               simdjson::SUCCESS &&
           take(body);
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
std::string_view FastRequest::text() const { return impl_->text.view(); }

std::optional<Tensors> FastRequest::tensors(const SignatureDef& signature) const {
  if (!impl_->row_form) return column_tensors(impl_->values, signature);
  KeyField none;
  return row_tensors(dom::array(impl_->values), signature, none);
}

std::optional<FastRows> fast_rows(std::span<const std::string_view> lines,
                                  const SignatureDef& signature, std::string_view key_field) {
  PaddedText text;
  std::vector<std::size_t> begins;
  std::size_t bytes = kLastLine.size();
  for (const std::string_view line : lines) bytes += line.size() + 1;
  text.reserve(bytes);
  begins.reserve(lines.size() + 1);
  for (const std::string_view line : lines) {
    const std::size_t first = line.find_first_not_of(kBlanks);
    if (first == line.npos) return std::nullopt;
    begins.push_back(text.size() + first);
    text.append(line);
    text.append("\n");
  }
  // One more, so that what continues after the last line is seen.
  begins.push_back(text.size());
  text.append(kLastLine);
  text.end();
  LentParser parser;
  if (!parser.make_room(text.size())) return std::nullopt;
  parser->threaded = false;
  dom::document_stream values;
  if (parser->parse_many(text.data(), text.size(), parser->capacity()).get(values) !=
      simdjson::SUCCESS) {
    return std::nullopt;
  }
  KeyField key{.name = key_field, .is_input = signature.inputs.contains(key_field)};
  RowFiller filler(signature, lines.size(), key);
  std::size_t number = 0;
  for (auto value = values.begin(); value != values.end(); ++value, ++number) {
    // Each value begins a line, and there are as many as lines: each line is one value.
    dom::element item;
    if (number == begins.size() || value.current_index() != begins[number] ||
        (*value).get(item) != simdjson::SUCCESS) {
      return std::nullopt;
    }
    if (number < lines.size() && !filler.add(item)) return std::nullopt;
  }
  if (number != begins.size()) return std::nullopt;
  return FastRows{.inputs = std::move(filler).tensors(), .keys = std::move(key.values)};
}

}  // namespace muster::serving
