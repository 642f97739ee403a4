#include "muster/saved_model/graph/graph_text.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <climits>

#include "muster/base/error.h"
#include "muster/graph.pb.h"
#include "muster/saved_model.pb.h"
#include "muster/saved_model/graph/graph_text_internal.h"

namespace muster::graph {
namespace {

// Keeps the first error; what is passed over is no error.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (text_.empty()) text_ = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Maps in the order of their keys.
std::string serialize(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

template <typename Proto>
std::string bytes_from_text(std::string_view text) {
  if (text.size() > INT_MAX)
    throw ResourceExhausted("a text of {} bytes is too large", text.size());
  Proto message;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.AllowUnknownField(true);
  parser.SetRecursionLimit(100);
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&stream, &message)) throw DataLoss("{}", error.text());
  return serialize(message);
}

// Maps in the order of their keys.
template <typename Proto>
std::string text_of(std::string_view bytes) {
  Proto message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw InvalidArgument("the graph has a name that is no UTF-8, which a GraphDef cannot hold");
  }
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

}  // namespace

std::string to_text(const GraphDef& graph) { return text_of<proto::GraphDef>(encode_graph(graph)); }

GraphDef parse_graph_text(std::string_view text, const GraphLimits& limits) {
  if (text.size() > limits.file_bytes) {
    throw ResourceExhausted("a graph of {} bytes is larger than GraphLimits::file_bytes, {}",
                            text.size(), limits.file_bytes);
  }
  return decode_graph(bytes_from_text<proto::GraphDef>(text), limits);
}

std::string saved_model_bytes_from_text(std::string_view text) {
  return bytes_from_text<proto::SavedModel>(text);
}

std::string saved_model_text_from_bytes(std::string_view bytes) {
  return text_of<proto::SavedModel>(bytes);
}

std::string op_list_bytes_from_text(std::string_view text) {
  return bytes_from_text<proto::OpList>(text);
}

}  // namespace muster::graph
