#include "muster/console/example_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/base/json_depth.h"
#include "muster/data/records/csv.h"
#include "muster/data/records/example_parser.h"
#include "muster/data/records/text_lines.h"
#include "muster/data/records/tfrecord_source.h"

namespace muster::console {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostExampleFiles = 200;
constexpr std::size_t kMostRowBytes = std::size_t{1} << 20;

enum class Format { kCsv, kJsonLines, kExamples };

std::optional<Format> format_of(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* end : {".gz", ".xz", ".zst"}) {
    if (name.ends_with(end)) name.erase(name.size() - std::string_view(end).size());
  }
  for (const auto& [end, format] : {std::pair{".csv", Format::kCsv},
                                    {".data", Format::kCsv},
                                    {".test", Format::kCsv},
                                    {".jsonl", Format::kJsonLines},
                                    {".ndjson", Format::kJsonLines},
                                    {".tfrecord", Format::kExamples},
                                    {".tfrecords", Format::kExamples}}) {
    if (name.ends_with(end)) return format;
  }
  return std::nullopt;
}

std::string example_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::unique_ptr<RecordSource> open_examples(const Path& path, Format format) {
  switch (format) {
    case Format::kCsv:
      return open_csv(path, {.skip_empty_lines = true, .max_row_bytes = kMostRowBytes});
    case Format::kJsonLines:
      return open_text_lines(path, {.max_line_bytes = kMostRowBytes});
    case Format::kExamples:
      break;
  }
  return std::make_unique<TFRecordSource>(
      path,
      TFRecordSourceOptions{.reader = {.max_record_bytes = kMostRowBytes}, .use_index = false});
}

bool is_text(std::string_view bytes) {
  return std::ranges::all_of(bytes,
                             [](unsigned char c) { return c >= 0x20 || c == '\t' || c == '\n'; });
}

// Words as they are, other bytes as TensorFlow Serving's JSON has them.
json bytes_json(std::string_view bytes) {
  json text(bytes);
  try {
    text.dump();  // Throws for what is no UTF-8.
    if (is_text(bytes)) return text;
  } catch (const json::exception&) {
    // Falls through.
  }
  return {{"b64", base64_encode(bytes)}};
}

template <typename Value, typename Convert>
json list_json(const FeatureView& feature, const Convert& convert) {
  std::vector<Value> values;
  feature.append_to(values);
  json list = json::array();
  for (const Value& value : values) list.push_back(convert(value));
  return list.size() == 1 ? list[0] : list;
}

json feature_value(const FeatureView& feature) {
  switch (feature.kind()) {
    case FeatureKind::kInt64:
      return list_json<std::int64_t>(feature, [](std::int64_t value) { return json(value); });
    case FeatureKind::kFloat:
      return list_json<float>(
          feature, [](float value) { return std::isfinite(value) ? json(value) : json(); });
    case FeatureKind::kBytes:
      return list_json<std::string_view>(feature, bytes_json);
    case FeatureKind::kNone:
      break;
  }
  return nullptr;
}

json values_of_example(std::string_view record) {
  const auto keys = example_keys(record);
  const auto features = ExampleParser(keys).parse(record);
  json values = json::object();
  for (std::size_t i = 0; i < keys.size(); ++i) values[keys[i]] = feature_value(features[i]);
  return values;
}

json values_of_line(std::string_view line) {
  if (is_json_deeper_than(kMostJsonFileDepth, line)) return json::object();
  json values = json::parse(line, nullptr, /*allow_exceptions=*/false);
  return values.is_object() ? values : json::object();
}

json values_of_csv(std::string_view row, const std::vector<std::string>& names) {
  const std::vector<std::string> fields = split_csv_row(row, {.strip_blanks = true});
  json values = json::object();
  for (std::size_t i = 0; i < std::min(fields.size(), names.size()); ++i) {
    values[names[i]] = fields[i];
  }
  return values;
}

}  // namespace

ExampleFiles::ExampleFiles(ExampleFilesOptions options) : options_(std::move(options)) {
  for (Path& folder : options_.folders) {
    std::error_code error;
    const Path path = fs::canonical(strip_file_scheme(folder), error);
    if (error || !fs::is_directory(path)) {
      throw NotFound("--data-dir: there is no folder {}", folder.string());
    }
    folder = path;
  }
}

std::vector<std::string> ExampleFiles::list() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < options_.folders.size(); ++i) {
    const std::string prefix = options_.folders.size() > 1 ? fmt::format("{}/", i + 1) : "";
    std::error_code error;
    for (fs::directory_iterator it(options_.folders[i], error), end; !error && it != end;
         it.increment(error)) {
      const std::string name = it->path().filename().string();
      const bool is_file = it->symlink_status(error).type() == fs::file_type::regular;
      if (is_file && !name.starts_with('.') && format_of(name)) names.push_back(prefix + name);
    }
  }
  std::ranges::sort(names);
  if (names.size() > kMostExampleFiles) names.resize(kMostExampleFiles);
  return names;
}

Path ExampleFiles::path_of(const std::string& name) const {
  const auto names = list();
  if (std::ranges::find(names, name) == names.end()) throw NotFound("there is no such file");
  const auto slash = name.find('/');
  if (slash == name.npos) return options_.folders.front() / name;
  return options_.folders.at(std::stoul(name.substr(0, slash)) - 1) / name.substr(slash + 1);
}

std::vector<ExampleRow> ExampleFiles::rows(const std::string& name, std::size_t from,
                                           std::size_t count,
                                           const std::vector<std::string>& inputs) const {
  const Path path = path_of(name);
  check_file_inside(path.parent_path(), path.filename());
  const Format format = *format_of(name);
  const auto source = open_examples(path, format);
  std::vector<std::string> columns = options_.csv_columns;
  Record record;
  if (format == Format::kCsv && source->next(record)) {
    const auto header = split_csv_row(record.bytes, {.strip_blanks = true});
    const bool is_header = std::ranges::any_of(header, [&](const std::string& word) {
      return std::ranges::find(inputs, word) != inputs.end();
    });
    if (is_header) columns = header;
    from += is_header ? 1 : 0;
  }
  source->seek(from);
  std::vector<ExampleRow> rows;
  while (rows.size() < count && source->next(record)) {
    ExampleRow row;
    if (format == Format::kExamples) {
      row = {.values = example_text(values_of_example(record.bytes)),
             .raw = base64_encode(record.bytes),
             .is_base64 = true};
    } else {
      row = {.values = example_text(format == Format::kCsv ? values_of_csv(record.bytes, columns)
                                                           : values_of_line(record.bytes)),
             .raw = std::string(record.bytes)};
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace muster::console
