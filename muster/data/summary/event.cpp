#include "muster/data/summary/event.h"

#include <climits>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "muster/base/error.h"
#include "muster/event.pb.h"
#include "muster/tensor.pb.h"

namespace muster {
namespace {

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

// ---------------------------------------------------------------------------------- encoding

void encode_shape(const std::vector<std::int64_t>& shape, proto::TensorShapeProto& out) {
  for (const std::int64_t size : shape) out.add_dim()->set_size(size);
}

void check_count(const std::vector<std::int64_t>& shape, std::size_t values) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && count > std::numeric_limits<std::int64_t>::max() / size)) {
      throw InvalidArgument("a summary tensor has a dimension of {}", size);
    }
    count *= size;
  }
  if (static_cast<std::uint64_t>(count) != values) {
    throw InvalidArgument("a summary tensor has {} values where its shape asks for {}", values,
                          count);
  }
}

template <typename T>
std::string content_of(const std::vector<double>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = static_cast<T>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

void encode_numbers(const NumberTensor& tensor, proto::TensorProto& out) {
  check_count(tensor.shape, tensor.values.size());
  encode_shape(tensor.shape, *out.mutable_tensor_shape());
  switch (tensor.type) {
    case NumberTensor::Type::kDouble:
      out.set_dtype(proto::DT_DOUBLE);
      out.set_tensor_content(content_of<double>(tensor.values));
      break;
    case NumberTensor::Type::kInt64:
      out.set_dtype(proto::DT_INT64);
      out.set_tensor_content(content_of<std::int64_t>(tensor.values));
      break;
    case NumberTensor::Type::kFloat:
    case NumberTensor::Type::kOther:
      out.set_dtype(proto::DT_FLOAT);
      out.set_tensor_content(content_of<float>(tensor.values));
      break;
  }
}

void encode_strings(const StringTensor& tensor, proto::TensorProto& out) {
  check_count(tensor.shape, tensor.values.size());
  out.set_dtype(proto::DT_STRING);
  encode_shape(tensor.shape, *out.mutable_tensor_shape());
  for (const auto& value : tensor.values) out.add_string_val(value);
}

void encode_histogram(const HistogramData& data, proto::HistogramProto& out) {
  out.set_min(data.min);
  out.set_max(data.max);
  out.set_num(data.num);
  out.set_sum(data.sum);
  out.set_sum_squares(data.sum_squares);
  out.mutable_bucket_limit()->Add(data.limits.begin(), data.limits.end());
  out.mutable_bucket()->Add(data.counts.begin(), data.counts.end());
}

void encode_image(const ImageData& image, proto::Summary::Image& out) {
  out.set_height(static_cast<int>(image.shape.height));
  out.set_width(static_cast<int>(image.shape.width));
  out.set_colorspace(static_cast<int>(image.shape.channels));
  out.set_encoded_image_string(image.encoded);
}

void encode_metadata(const SummaryValue& value, proto::SummaryMetadata& out) {
  out.mutable_plugin_data()->set_plugin_name(value.plugin);
  out.mutable_plugin_data()->set_content(value.plugin_content);
  if (value.plugin == "text") out.set_data_class(proto::DATA_CLASS_TENSOR);
}

void encode_value(const SummaryValue& value, proto::Summary::Value& out) {
  out.set_tag(value.tag);
  if (!value.plugin.empty()) encode_metadata(value, *out.mutable_metadata());
  std::visit(
      Overloaded{
          [](std::monostate) {}, [&](float scalar) { out.set_simple_value(scalar); },
          [&](const HistogramData& data) { encode_histogram(data, *out.mutable_histo()); },
          [&](const ImageData& image) { encode_image(image, *out.mutable_image()); },
          [&](const NumberTensor& tensor) { encode_numbers(tensor, *out.mutable_tensor()); },
          [&](const StringTensor& tensor) { encode_strings(tensor, *out.mutable_tensor()); }},
      value.data);
}

void encode_session(const SessionMark& mark, proto::SessionLog& out) {
  out.set_status(static_cast<proto::SessionLog::SessionStatus>(mark.status));
  out.set_checkpoint_path(mark.checkpoint_path);
  out.set_msg(mark.message);
}

// ---------------------------------------------------------------------------------- decoding

std::vector<std::int64_t> decode_shape(const proto::TensorShapeProto& shape) {
  std::vector<std::int64_t> sizes;
  for (const auto& dim : shape.dim()) sizes.push_back(dim.size());
  return sizes;
}

template <typename T>
std::vector<double> numbers_in(const std::string& content) {
  if (content.size() % sizeof(T) != 0) {
    throw DataLoss("a summary tensor has {} bytes, no multiple of {}", content.size(), sizeof(T));
  }
  std::vector<double> values(content.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, content.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

// Either the list of the type or the raw bytes hold the values.
template <typename T, typename List>
std::vector<double> numbers_of(const proto::TensorProto& tensor, const List& list) {
  if (!tensor.tensor_content().empty()) return numbers_in<T>(tensor.tensor_content());
  return {list.begin(), list.end()};
}

std::vector<double> decode_numbers(const proto::TensorProto& tensor) {
  switch (tensor.dtype()) {
    case proto::DT_FLOAT:
      return numbers_of<float>(tensor, tensor.float_val());
    case proto::DT_DOUBLE:
      return numbers_of<double>(tensor, tensor.double_val());
    case proto::DT_INT32:
      return numbers_of<std::int32_t>(tensor, tensor.int_val());
    case proto::DT_INT64:
      return numbers_of<std::int64_t>(tensor, tensor.int64_val());
    case proto::DT_UINT8:
      return numbers_of<std::uint8_t>(tensor, tensor.int_val());
    case proto::DT_INT8:
      return numbers_of<std::int8_t>(tensor, tensor.int_val());
    case proto::DT_INT16:
      return numbers_of<std::int16_t>(tensor, tensor.int_val());
    case proto::DT_UINT16:
      return numbers_of<std::uint16_t>(tensor, tensor.int_val());
    case proto::DT_UINT32:
      return numbers_of<std::uint32_t>(tensor, tensor.uint32_val());
    case proto::DT_UINT64:
      return numbers_of<std::uint64_t>(tensor, tensor.uint64_val());
    case proto::DT_BOOL:
      return numbers_of<std::uint8_t>(tensor, tensor.bool_val());
    default:
      return {};
  }
}

NumberTensor::Type type_of(proto::DataType type) {
  switch (type) {
    case proto::DT_FLOAT:
      return NumberTensor::Type::kFloat;
    case proto::DT_DOUBLE:
      return NumberTensor::Type::kDouble;
    case proto::DT_INT64:
      return NumberTensor::Type::kInt64;
    default:
      return NumberTensor::Type::kOther;
  }
}

HistogramData decode_histogram(const proto::HistogramProto& histogram) {
  if (histogram.bucket_size() != histogram.bucket_limit_size()) {
    throw DataLoss("a histogram has {} buckets and {} limits", histogram.bucket_size(),
                   histogram.bucket_limit_size());
  }
  return {.min = histogram.min(),
          .max = histogram.max(),
          .num = histogram.num(),
          .sum = histogram.sum(),
          .sum_squares = histogram.sum_squares(),
          .limits = {histogram.bucket_limit().begin(), histogram.bucket_limit().end()},
          .counts = {histogram.bucket().begin(), histogram.bucket().end()}};
}

decltype(SummaryValue::data) decode_tensor(const proto::TensorProto& tensor) {
  const auto shape = decode_shape(tensor.tensor_shape());
  if (tensor.dtype() == proto::DT_STRING) {
    return StringTensor{shape, {tensor.string_val().begin(), tensor.string_val().end()}};
  }
  return NumberTensor{type_of(tensor.dtype()), shape, decode_numbers(tensor)};
}

decltype(SummaryValue::data) decode_data(proto::Summary::Value& value) {
  switch (value.value_case()) {
    case proto::Summary::Value::kSimpleValue:
      return value.simple_value();
    case proto::Summary::Value::kHisto:
      return decode_histogram(value.histo());
    case proto::Summary::Value::kImage: {
      auto& image = *value.mutable_image();
      return ImageData{{image.height(), image.width(), image.colorspace()},
                       std::move(*image.mutable_encoded_image_string())};
    }
    case proto::Summary::Value::kTensor:
      return decode_tensor(value.tensor());
    default:
      return std::monostate();
  }
}

SummaryValue decode_value(proto::Summary::Value& value) {
  const auto& plugin = value.metadata().plugin_data();
  return {value.tag(), decode_data(value), plugin.plugin_name(), plugin.content()};
}

SessionMark decode_session(const proto::SessionLog& log) {
  const bool known = proto::SessionLog::SessionStatus_IsValid(log.status());
  const auto status =
      known ? static_cast<SessionMark::Status>(log.status()) : SessionMark::Status::kUnspecified;
  return {status, log.checkpoint_path(), log.msg()};
}

decltype(Event::what) decode_what(proto::Event& event) {
  switch (event.what_case()) {
    case proto::Event::kFileVersion:
      return FileVersion{event.file_version()};
    case proto::Event::kGraphDef:
      return GraphBytes{std::move(*event.mutable_graph_def())};
    case proto::Event::kSummary: {
      Summary summary;
      for (auto& value : *event.mutable_summary()->mutable_value()) {
        summary.push_back(decode_value(value));
      }
      return summary;
    }
    case proto::Event::kSessionLog:
      return decode_session(event.session_log());
    default:
      return std::monostate();
  }
}

}  // namespace

std::string encode_event(const Event& event) {
  proto::Event out;
  out.set_wall_time(event.wall_time);
  out.set_step(event.step);
  std::visit(Overloaded{[](std::monostate) {},
                        [&](const FileVersion& file) { out.set_file_version(file.version); },
                        [&](const GraphBytes& graph) { out.set_graph_def(graph.bytes); },
                        [&](const Summary& summary) {
                          auto& values = *out.mutable_summary();
                          for (const auto& value : summary)
                            encode_value(value, *values.add_value());
                        },
                        [&](const SessionMark& mark) {
                          encode_session(mark, *out.mutable_session_log());
                        }},
             event.what);
  std::string bytes;
  if (out.ByteSizeLong() > INT_MAX || !out.SerializeToString(&bytes)) {
    throw InvalidArgument("an event of {} bytes is too large to write", out.ByteSizeLong());
  }
  return bytes;
}

Event decode_event(std::string_view bytes) {
  proto::Event event;
  if (bytes.size() > INT_MAX ||
      !event.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw DataLoss("{} bytes that are no Event", bytes.size());
  }
  return {event.wall_time(), event.step(), decode_what(event)};
}

std::optional<double> scalar_of(const SummaryValue& value) {
  if (const auto* scalar = std::get_if<float>(&value.data)) return *scalar;
  const auto* tensor = std::get_if<NumberTensor>(&value.data);
  const bool single = tensor != nullptr && tensor->shape.empty() && tensor->values.size() == 1;
  return single ? std::optional(tensor->values[0]) : std::nullopt;
}

SummaryValue text_summary(std::string tag, std::string text) {
  return {.tag = std::move(tag),
          .data = StringTensor{.shape = {}, .values = {std::move(text)}},
          .plugin = "text"};
}

}  // namespace muster
