#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/serving/batch/prediction_lines_internal.h"
#include "muster/serving/codec/predict_request.h"

namespace muster::serving {
namespace {

using nlohmann::json;

std::string csv_field(std::string text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

// A string as it is, everything else as JSON.
std::string csv_text(const std::string& value) {
  if (!value.starts_with('"')) return csv_field(value);
  return csv_field(json::parse(value).get<std::string>());
}

}  // namespace

LineWriter::LineWriter(const BatchJob& job, const graph::SignatureDef& signature)
    : format_(job.output), key_field_(job.key_field) {
  for (const auto& row : signature.outputs) outputs_.push_back(row.first);
  // A model that hands the key on by itself has it among its outputs.
  if (signature.outputs.contains(key_field_)) key_field_.clear();
  if (!key_field_.empty()) key_name_ = json_string_lossy(key_field_);
}

std::string LineWriter::header() const {
  if (format_ == BatchOutput::kJson) return {};
  std::string line = csv_field(key_field_);
  for (const std::string& name : outputs_) {
    if (!line.empty()) line += ',';
    line += csv_field(name);
  }
  return line;
}

void LineWriter::append(const Predictions& predictions, std::int64_t row, const std::string* key,
                        std::string& out) const {
  if (key_field_.empty()) key = nullptr;
  if (format_ == BatchOutput::kCsv) {
    append_csv(predictions, row, key, out);
  } else {
    append_json(predictions, row, key, out);
  }
  out += '\n';
}

void LineWriter::append_json(const Predictions& predictions, std::int64_t row,
                             const std::string* key, std::string& out) const {
  out += '{';
  if (key != nullptr) {
    out += key_name_;
    out += ": ";
    out += *key;
    if (!outputs_.empty()) out += ", ";
  }
  predictions.append_fields(row, out);
  out += '}';
}

void LineWriter::append_csv(const Predictions& predictions, std::int64_t row,
                            const std::string* key, std::string& out) const {
  if (key != nullptr) out += csv_text(*key);
  bool is_first = key == nullptr;
  for (const std::string& name : outputs_) {
    if (!std::exchange(is_first, false)) out += ',';
    out += csv_text(predictions.json(row, name));
  }
}

std::string error_line(const std::string& instance, const std::string& error) {
  return fmt::format(R"({{"instance": {}, "error": {}}})", json_string_lossy(instance),
                     json_string_lossy(error));
}

}  // namespace muster::serving
