#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/data/records/csv.h"
#include "muster/data/records/example_parser.h"
#include "muster/data/records/line_file.h"
#include "muster/data/records/text_lines.h"
#include "muster/data/records/tfrecord_source.h"
#include "muster/serving/batch/batch_instances_internal.h"
#include "muster/serving/batch/plain_rows_internal.h"
#include "muster/serving/codec/fast_request.h"
#include "muster/serving/codec/json.h"
#include "muster/serving/codec/predict_request.h"
#include "muster/serving/codec/signature_defaults.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::SignatureDef;
using graph::TensorInfo;
using graph::TensorValue;
using nlohmann::json;

constexpr std::int64_t kAnyCount = 2;

bool fits_rows(const TensorInfo& info) {
  return graph::fits(info.shape, std::vector<std::int64_t>{kAnyCount});
}

// The input that takes instances as they are: bytes, one string each.
const std::string* only_string_input(const SignatureDef& signature) {
  if (signature.inputs.size() != 1) return nullptr;
  const auto& [name, info] = *signature.inputs.begin();
  const bool is_it = graph::without_ref(info.dtype) == DataType::kString && fits_rows(info);
  return is_it ? &name : nullptr;
}

std::string input_list(const SignatureDef& signature) {
  std::vector<std::string> names;
  names.reserve(signature.inputs.size());
  for (const auto& [name, info] : signature.inputs) {
    names.push_back(
        fmt::format("{} ({} {})", name, graph::name_of(info.dtype), to_string(info.shape)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// ------------------------------------------------------------------------------------ JSON lines

class JsonDecoder final : public InstanceDecoder {
 public:
  JsonDecoder(const SignatureDef& signature, std::string key_field)
      : signature_(signature), key_field_(std::move(key_field)), plain_(signature_, key_field_) {}

  DecodedBatch decode(std::span<const std::string_view> instances) const override {
    auto fast = decode_fast(instances);
    return fast ? std::move(*fast) : decode_checked(instances);
  }

 private:
  // Nothing for what is not the common case: the other reader knows what is wrong, if anything is.
  std::optional<DecodedBatch> decode_fast(std::span<const std::string_view> instances) const {
    auto rows = plain_.read(instances);
    if (!rows) rows = fast_rows(instances, signature_, key_field_);
    if (!rows) return std::nullopt;
    DecodedBatch batch{.inputs = std::move(rows->inputs), .keys = std::move(rows->keys)};
    // Shapes that a signature declares are looked at below.
    for (const auto& [name, tensor] : batch.inputs) {
      const auto info = signature_.inputs.find(name);
      if (!graph::fits(info->second.shape, tensor.shape)) return std::nullopt;
    }
    return batch;
  }

  DecodedBatch decode_checked(std::span<const std::string_view> instances) const {
    DecodedBatch batch;
    std::string lines;
    for (const std::string_view text : instances) {
      lines += key_field_.empty() ? std::string(text) : take_key(text, batch.keys);
      lines += '\n';
    }
    batch.inputs = Instances::from_json_lines(lines).tensors(signature_);
    return batch;
  }

  // The instance as the model sees it.
  std::string take_key(std::string_view text, std::vector<std::string>& keys) const {
    json instance;
    try {
      instance = parse_json(text);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument("Input instances are not in JSON format: {}", error.message());
    }
    const auto found = instance.is_object() ? instance.find(key_field_) : instance.end();
    if (!instance.is_object() || found == instance.end()) {
      throw InvalidArgument("the instance has no field {}, which --key-field names", key_field_);
    }
    keys.push_back(found->dump());
    if (!signature_.inputs.contains(key_field_)) instance.erase(key_field_);
    return instance.dump();
  }

  const SignatureDef& signature_;
  std::string key_field_;
  PlainRows plain_;
};

// -------------------------------------------------------------------------------- whole byte rows

TensorValue strings_of(std::span<const std::string_view> instances) {
  return TensorValue::of_strings({static_cast<std::int64_t>(instances.size())},
                                 {instances.begin(), instances.end()});
}

/// Every instance is one string.
class BytesDecoder final : public InstanceDecoder {
 public:
  explicit BytesDecoder(std::string input) : input_(std::move(input)) {}

  DecodedBatch decode(std::span<const std::string_view> instances) const override {
    DecodedBatch batch;
    batch.inputs.emplace(input_, strings_of(instances));
    return batch;
  }

 private:
  std::string input_;
};

/// Every instance is a serialised tf.Example, one of whose features is the key.
class KeyedExampleDecoder final : public InstanceDecoder {
 public:
  KeyedExampleDecoder(std::string input, std::string key_field)
      : input_(std::move(input)), parser_({std::move(key_field)}) {}

  DecodedBatch decode(std::span<const std::string_view> instances) const override {
    DecodedBatch batch;
    batch.inputs.emplace(input_, strings_of(instances));
    ExampleView view;
    for (const std::string_view example : instances) {
      parser_.parse(example, view);
      batch.keys.push_back(key_text(view.front()));
    }
    return batch;
  }

 private:
  std::string key_text(const FeatureView& feature) const {
    if (feature.kind() == FeatureKind::kBytes && feature.count() == 1) {
      return json_string(feature.first_bytes());
    }
    if (feature.kind() == FeatureKind::kInt64 && feature.count() == 1) {
      return std::to_string(feature.first_int64());
    }
    throw InvalidArgument(
        "the example has no feature {} with one string or whole number, which --key-field names",
        parser_.keys().front());
  }

  std::string input_;
  ExampleParser parser_;
};

// ------------------------------------------------------------------------------------ CSV columns

std::vector<std::string> header_of(const Path& file) {
  const auto lines = open_text_lines(file);
  Record first;
  if (!lines->next(first)) {
    throw InvalidArgument("{} is empty: its first line has to name the columns", file.string());
  }
  return split_csv_row(first.bytes);
}

// Default value of an empty field, if the signature has one.
template <typename T>
std::optional<T> default_of(const SignatureDef& signature, const std::string& name) {
  const auto value = signature.defaults.find(name);
  if (value == signature.defaults.end()) return std::nullopt;
  if (!is_row_default(signature.inputs.find(name)->second, value->second)) return std::nullopt;
  const auto numbers = value->second.values<T>();
  return numbers.size() == 1 ? std::optional<T>(numbers.front()) : std::nullopt;
}

CsvField field_of(const SignatureDef& signature, const std::string& name, DataType type) {
  switch (graph::without_ref(type)) {
    case DataType::kFloat:
      return CsvField::float32(name, default_of<float>(signature, name));
    case DataType::kDouble:
      return CsvField::float64(name, default_of<double>(signature, name));
    case DataType::kInt32:
      return CsvField::int32(name, default_of<std::int32_t>(signature, name));
    case DataType::kInt64:
      return CsvField::int64(name, default_of<std::int64_t>(signature, name));
    case DataType::kString:
      return CsvField::string(name, "");
    default:
      throw InvalidArgument("the input {} is {}, which a column of CSV cannot hold; use JSON", name,
                            graph::name_of(type));
  }
}

struct ToTensor {
  std::vector<std::int64_t> shape;

  template <typename T>
  TensorValue operator()(const std::vector<T>& values) const {
    return TensorValue::of<T>(shape, std::span<const T>(values));
  }
  TensorValue operator()(const std::vector<std::string_view>& values) const {
    return TensorValue::of_strings(shape, {values.begin(), values.end()});
  }
  TensorValue operator()(std::monostate) const { return {}; }
};

struct ToKeyText {
  std::size_t row;

  template <typename T>
  std::string operator()(const std::vector<T>& values) const {
    return fmt::format("{}", values[row]);
  }
  std::string operator()(const std::vector<std::string_view>& values) const {
    return json_string(values[row]);
  }
  std::string operator()(std::monostate) const { return "null"; }
};

/// Every column is an input of the name that the file's first line gives it.
class CsvColumnsDecoder final : public InstanceDecoder {
 public:
  CsvColumnsDecoder(const SignatureDef& signature, const std::string& key_field, const Path& file)
      : signature_(signature), decoder_(fields_of(signature, key_field, header_of(file))) {
    const auto fields = decoder_.fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].name == key_field) key_column_ = i;
      const auto input = signature.inputs.find(fields[i].name);
      if (input == signature.inputs.end()) continue;
      const bool is_flat = fits_rows(input->second);
      const std::vector<std::int64_t> one_wide{kAnyCount, 1};
      if (!is_flat && !graph::fits(input->second.shape, one_wide)) {
        throw InvalidArgument(
            "the input {} has the shape {}, and a column of CSV has one value a row; use JSON",
            input->first, to_string(input->second.shape));
      }
      inputs_.push_back({input->first, i, is_flat});
    }
  }

  DecodedBatch decode(std::span<const std::string_view> instances) const override {
    const CsvColumns columns = decoder_.decode(instances);
    DecodedBatch batch;
    for (const Input& input : inputs_) {
      ToTensor to_tensor{{static_cast<std::int64_t>(columns.rows)}};
      if (!input.is_flat) to_tensor.shape.push_back(1);
      batch.inputs.emplace(input.name, std::visit(to_tensor, columns.columns[input.column]));
    }
    add_defaults(signature_, batch.inputs);
    if (key_column_) {
      for (std::size_t row = 0; row < columns.rows; ++row) {
        batch.keys.push_back(std::visit(ToKeyText{row}, columns.columns[*key_column_]));
      }
    }
    return batch;
  }

 private:
  struct Input {
    std::string name;
    std::size_t column;
    bool is_flat;
  };

  static std::vector<CsvField> fields_of(const SignatureDef& signature,
                                         const std::string& key_field,
                                         const std::vector<std::string>& header) {
    std::vector<CsvField> fields;
    for (const std::string& name : header) {
      const auto input = signature.inputs.find(name);
      if (input != signature.inputs.end()) {
        fields.push_back(field_of(signature, name, input->second.dtype));
      } else if (!key_field.empty() && name == key_field) {
        fields.push_back(CsvField::string(name, ""));
      } else {
        throw InvalidArgument("column '{}' is no input of the signature, which has: {}", name,
                              input_list(signature));
      }
    }
    const auto is_there = [&](const std::string& name) {
      return std::ranges::find(header, name) != header.end();
    };
    for (const auto& [name, info] : signature.inputs) {
      if (is_there(name) || signature.defaults.contains(name)) continue;
      throw InvalidArgument("there is no column for the input {}", name);
    }
    if (!key_field.empty() && !is_there(key_field)) {
      throw InvalidArgument("there is no column {}, which --key-field names", key_field);
    }
    return fields;
  }

  const SignatureDef& signature_;
  CsvDecoder decoder_;
  std::vector<Input> inputs_{};
  std::optional<std::size_t> key_column_{};
};

const std::string& string_input_for(const BatchJob& job, const SignatureDef& signature) {
  const std::string* const input = only_string_input(signature);
  if (input != nullptr) return *input;
  throw InvalidArgument(
      "--data-format {} gives strings, and the signature {} does not take one string per instance: "
      "it has {}",
      name_of(job.input), job.signature, input_list(signature));
}

std::unique_ptr<RecordSource> open_source(const BatchJob& job, const SignatureDef& signature,
                                          const Path& path) {
  switch (job.input) {
    case BatchInput::kJson:
      break;  // Lines.
    case BatchInput::kCsv:
      return open_csv(path,
                      {.skip_header_lines = only_string_input(signature) == nullptr ? 1ULL : 0ULL});
    case BatchInput::kTFRecord:
      return std::make_unique<TFRecordSource>(path);
    case BatchInput::kTFRecordGzip: {
      TFRecordSourceOptions options;
      options.reader.compression = Compression::kGzip;
      return std::make_unique<TFRecordSource>(path, options);
    }
  }
  throw Internal("there is no such format");
}

}  // namespace

InstanceFile::InstanceFile(const BatchJob& job, const SignatureDef& signature, const Path& path) {
  if (job.input == BatchInput::kJson) {
    auto lines = open_line_file(path);
    lines_ = lines.get();
    source_ = std::move(lines);
  } else {
    source_ = open_source(job, signature, path);
  }
}

bool InstanceFile::next(Record& out, std::optional<std::string>& error) {
  error.reset();
  if (ended_at_) return false;
  const std::uint64_t before = source_->position();
  try {
    return source_->next(out);
  } catch (const Error& failure) {
    error = failure.what();
    out = Record();
    if (source_->position() == before) ended_at_ = before + 1;
    return true;
  }
}

std::optional<std::uint64_t> InstanceFile::offset() const {
  return lines_ == nullptr ? std::nullopt : lines_->offset();
}

void InstanceFile::seek(std::uint64_t number, const LineMarks& marks) {
  ended_at_.reset();
  if (lines_ != nullptr && !marks.offsets.empty()) {
    const std::uint64_t mark = std::min(number / marks.every, marks.offsets.size() - 1);
    const std::uint64_t marked = mark * marks.every;
    const std::uint64_t at = lines_->position();
    if (number < at || at < marked) lines_->seek(marked, marks.offsets[mark]);
  }
  source_->seek(number);
}

std::unique_ptr<InstanceDecoder> make_instance_decoder(const BatchJob& job,
                                                       const SignatureDef& signature,
                                                       const Path& file) {
  switch (job.input) {
    case BatchInput::kJson:
      return std::make_unique<JsonDecoder>(signature, job.key_field);
    case BatchInput::kTFRecord:
    case BatchInput::kTFRecordGzip: {
      const std::string& input = string_input_for(job, signature);
      if (job.key_field.empty()) return std::make_unique<BytesDecoder>(input);
      return std::make_unique<KeyedExampleDecoder>(input, job.key_field);
    }
    case BatchInput::kCsv:
      break;
  }
  const std::string* const input = only_string_input(signature);
  if (input == nullptr) {
    try {
      return std::make_unique<CsvColumnsDecoder>(signature, job.key_field, file);
    } catch (Error& error) {
      error.add_context(file.string());
      throw;
    }
  }
  if (!job.key_field.empty()) {
    throw InvalidArgument(
        "--key-field names a column, but the signature {} takes whole rows of CSV", job.signature);
  }
  return std::make_unique<BytesDecoder>(*input);
}

}  // namespace muster::serving
