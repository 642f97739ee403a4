#include "muster/cli/records_show.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/records.h"
#include "muster/data/records/example_parser.h"
#include "muster/data/records/tfrecord_source.h"
#include "muster/data/tables/open_table.h"

namespace muster::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kRecordPreviewBytes = 48;

bool is_printable(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace

std::string preview_of(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, kRecordPreviewBytes);
  std::string text;
  if (is_printable(bytes)) {
    text = fmt::format("\"{}\"", head);
  } else {
    for (const unsigned char c : head.substr(0, kRecordPreviewBytes / 2))
      text += fmt::format("{:02x}", c);
  }
  const bool cut =
      is_printable(bytes) ? bytes.size() > head.size() : bytes.size() > kRecordPreviewBytes / 2;
  return cut ? text + fmt::format("... ({} bytes)", bytes.size()) : text;
}

json bytes_to_json(std::string_view bytes) {
  if (is_printable(bytes)) return bytes;
  std::string hex;
  for (const unsigned char c : bytes) hex += fmt::format("{:02x}", c);
  return {{"hex", hex}};
}

namespace {

template <typename T>
std::vector<T> values_of(const FeatureView& feature) {
  std::vector<T> values;
  feature.append_to(values);
  return values;
}

json feature_to_json(const FeatureView& feature) {
  switch (feature.kind()) {
    case FeatureKind::kInt64:
      return values_of<std::int64_t>(feature);
    case FeatureKind::kFloat:
      return values_of<float>(feature);
    case FeatureKind::kBytes: {
      json list = json::array();
      for (const auto value : values_of<std::string_view>(feature))
        list.push_back(bytes_to_json(value));
      return list;
    }
    case FeatureKind::kNone:
      break;
  }
  return nullptr;
}

template <typename T, typename Format>
std::string list_text(const std::vector<T>& values, std::size_t limit, Format&& format) {
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), limit); ++i) {
    text += (i == 0 ? "" : ", ") + format(values[i]);
  }
  if (values.size() > limit) text += fmt::format(", ... ({} values)", values.size());
  return text;
}

std::string feature_text(const FeatureView& feature, std::size_t limit) {
  switch (feature.kind()) {
    case FeatureKind::kInt64:
      return list_text(values_of<std::int64_t>(feature), limit,
                       [](std::int64_t value) { return fmt::format("{}", value); });
    case FeatureKind::kFloat:
      return list_text(values_of<float>(feature), limit,
                       [](float value) { return fmt::format("{}", value); });
    case FeatureKind::kBytes:
      return list_text(values_of<std::string_view>(feature), limit, preview_of);
    case FeatureKind::kNone:
      break;
  }
  return "(empty)";
}

/// One record taken apart: the features of an Example, or nothing if it is none.
struct Parts {
  std::vector<std::string> keys;
  ExampleView features;
};

// Any bytes may be a record; those that do not parse, or parse to nothing, are shown as they are.
Parts take_apart(std::string_view record) {
  try {
    Parts parts{example_keys(record), {}};
    parts.features = ExampleParser(parts.keys).parse(record);
    return parts;
  } catch (const DataLoss&) {
    return {};
  }
}

void print_json(std::uint64_t number, std::string_view record, const Parts& parts) {
  json line{{"record", number}, {"bytes", record.size()}};
  if (parts.keys.empty()) {
    line["data"] = bytes_to_json(record);
  } else {
    json& features = line["features"] = json::object();
    for (std::size_t i = 0; i < parts.keys.size(); ++i) {
      features[parts.keys[i]] = {{"kind", name_of(parts.features[i].kind())},
                                 {"values", feature_to_json(parts.features[i])}};
    }
  }
  fmt::print("{}\n", line.dump(-1, ' ', false, json::error_handler_t::replace));
}

void print_text(std::uint64_t number, std::string_view record, const Parts& parts,
                std::size_t values) {
  fmt::print("record {}: {} bytes{}\n", number, record.size(),
             parts.keys.empty() ? ", no Example" : "");
  if (parts.keys.empty()) fmt::print("  {}\n", preview_of(record));
  for (std::size_t i = 0; i < parts.keys.size(); ++i) {
    fmt::print("  {} ({}): {}\n", parts.keys[i], name_of(parts.features[i].kind()),
               feature_text(parts.features[i], values));
  }
}

void run(const RecordsShowOptions& options) {
  if (is_table(options.file) || !options.query.empty()) return show_table(options);
  TFRecordSource source{Path(options.file)};
  if (options.skip > 0) source.seek(options.skip);
  Record record;
  for (std::uint64_t shown = 0; shown < options.limit; ++shown) {
    const std::uint64_t number = source.position();
    if (!source.next(record)) break;
    const Parts parts = take_apart(record.bytes);
    options.as_json ? print_json(number, record.bytes, parts)
                    : print_text(number, record.bytes, parts, options.values);
  }
}

}  // namespace

void add_records_show(CLI::App& command) {
  const auto options = std::make_shared<RecordsShowOptions>();
  command
      .add_option("FILE", options->file,
                  "A TFRecord file, also a compressed one, or a table: .parquet, .jsonl, an SQLite "
                  "database")
      ->required();
  command.add_option("--limit", options->limit, "Records to print")->capture_default_str();
  command.add_option("--skip", options->skip, "Records to skip first")->capture_default_str();
  command.add_option("--query", options->query, "A SELECT, for an SQLite database");
  command.add_option("--values", options->values, "Values to print per feature")
      ->capture_default_str();
  add_json_flag(command, options->as_json, "One JSON object per record or row, with all values");
  command.callback([options] { run(*options); });
}

}  // namespace muster::cli
