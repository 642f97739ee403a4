#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cli/command.h"
#include "muster/data/summary/event_reader.h"
#include "muster/saved_model/graph/graph_def.h"

namespace muster::cli {
namespace {

using nlohmann::json;

struct EventsOptions {
  std::string path;
  std::vector<std::string> tags;
  std::size_t limit = 0;
  bool as_json = false;
};

constexpr std::size_t kEventPreviewBytes = 60;
constexpr std::size_t kPreviewValues = 8;

// ------------------------------------------------------------------------------ one value as text

std::string time_text(double wall_time) {
  // Beyond the year 9999 it is no time, and gmtime may have no answer.
  if (!(wall_time >= 0 && wall_time < 253402300800.0)) return fmt::format("{}", wall_time);
  const auto seconds = static_cast<std::time_t>(wall_time);
  const auto milliseconds = static_cast<int>((wall_time - static_cast<double>(seconds)) * 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     milliseconds);
}

// Text on one line: control characters would spoil the table.
std::string one_line(std::string_view text) {
  std::string line(text.substr(0, kEventPreviewBytes));
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return text.size() > kEventPreviewBytes ? line + fmt::format("... ({} bytes)", text.size())
                                          : line;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const auto size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

std::string text_of(const HistogramData& histogram) {
  if (histogram.num == 0) return "no values";
  const double mean = histogram.sum / histogram.num;
  const double variance = histogram.sum_squares / histogram.num - mean * mean;
  return fmt::format("{:.0f} values, {:.6g} to {:.6g}, mean {:.6g}, deviation {:.6g}",
                     histogram.num, histogram.min, histogram.max, mean,
                     std::sqrt(std::max(variance, 0.0)));
}

std::string text_of(const NumberTensor& tensor) {
  std::string text = shape_text(tensor.shape);
  for (std::size_t i = 0; i < std::min(tensor.values.size(), kPreviewValues); ++i) {
    text += fmt::format(" {:.6g}", tensor.values[i]);
  }
  return tensor.values.size() > kPreviewValues ? text + " ..." : text;
}

std::string text_of(const StringTensor& tensor) {
  if (tensor.values.empty()) return shape_text(tensor.shape);
  const std::string first = one_line(tensor.values[0]);
  return tensor.values.size() == 1 ? first
                                   : fmt::format("{} {} ...", shape_text(tensor.shape), first);
}

std::string text_of(const SummaryValue& value) {
  if (const auto scalar = scalar_of(value)) return fmt::format("{:.6g}", *scalar);
  if (const auto* histogram = std::get_if<HistogramData>(&value.data)) return text_of(*histogram);
  if (const auto* tensor = std::get_if<NumberTensor>(&value.data)) return text_of(*tensor);
  if (const auto* strings = std::get_if<StringTensor>(&value.data)) return text_of(*strings);
  if (const auto* image = std::get_if<ImageData>(&value.data)) {
    return fmt::format("{} x {} pixels, {} channels, {} bytes", image->shape.height,
                       image->shape.width, image->shape.channels, image->encoded.size());
  }
  return "?";
}

std::string text_of(const GraphBytes& graph) {
  try {
    return fmt::format("{} nodes, {} bytes", graph::decode_graph(graph.bytes).nodes.size(),
                       graph.bytes.size());
  } catch (const Error& error) {
    return fmt::format("{} bytes, which cannot be read: {}", graph.bytes.size(),
                       one_line(error.what()));
  }
}

std::string kind_of(const SummaryValue& value) {
  if (value.plugin == "hparams") return "hparams";
  if (scalar_of(value)) return "scalar";
  if (std::holds_alternative<HistogramData>(value.data)) return "histogram";
  if (std::holds_alternative<ImageData>(value.data)) return "image";
  if (std::holds_alternative<StringTensor>(value.data)) return "text";
  return std::holds_alternative<NumberTensor>(value.data) ? "tensor" : "other";
}

json json_of(const SummaryValue& value) {
  if (const auto scalar = scalar_of(value)) return *scalar;
  if (const auto* histogram = std::get_if<HistogramData>(&value.data)) {
    return {{"min", histogram->min},
            {"max", histogram->max},
            {"num", histogram->num},
            {"sum", histogram->sum},
            {"sum_squares", histogram->sum_squares},
            {"limits", histogram->limits},
            {"counts", histogram->counts}};
  }
  if (const auto* tensor = std::get_if<NumberTensor>(&value.data)) {
    return {{"shape", tensor->shape}, {"values", tensor->values}};
  }
  if (const auto* strings = std::get_if<StringTensor>(&value.data)) {
    return {{"shape", strings->shape}, {"values", strings->values}};
  }
  if (const auto* image = std::get_if<ImageData>(&value.data)) {
    return {{"height", image->shape.height},
            {"width", image->shape.width},
            {"channels", image->shape.channels},
            {"bytes", image->encoded.size()}};
  }
  return nullptr;
}

// ---------------------------------------------------------------------------------------- tables

using Row = std::vector<std::string>;

void print_table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      line += fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    fmt::print("{}{}\n", line, row.back());
  }
}

void print_json(const json& line) {
  fmt::print("{}\n", line.dump(-1, ' ', false, json::error_handler_t::replace));
}

/// Output, gathered while events are read. Nothing but text is kept of a value.
class Report {
 public:
  virtual ~Report() = default;
  virtual void take(const Event& event, const SummaryValue& value) = 0;
  virtual void take_graph(const Event& event, const GraphBytes& graph) { (void)event, (void)graph; }
  /// Called when all events have come by. Throws NotFound for a tag that had none.
  virtual void check() const {}
  virtual void print() const = 0;
};

/// A row a tag.
class TagReport final : public Report {
 public:
  explicit TagReport(const EventsOptions& options) : options_(options) {}

  void take(const Event& event, const SummaryValue& value) override {
    add(value.tag, event.step, kind_of(value), text_of(value));
  }

  // The name of the event's field: a graph has no tag.
  void take_graph(const Event& event, const GraphBytes& graph) override {
    add("graph_def", event.step, "graph", text_of(graph));
  }

  void print() const override {
    std::vector<Row> rows{{"TAG", "KIND", "COUNT", "STEPS", "LAST"}};
    std::size_t left = options_.limit > 0 ? options_.limit : tags_.size();
    for (auto entry = tags_.begin(); entry != tags_.end() && left > 0; ++entry, --left) {
      const auto& [name, tag] = *entry;
      if (options_.as_json) {
        print_json({{"tag", name},
                    {"kind", tag.kind},
                    {"count", tag.count},
                    {"first_step", tag.first_step},
                    {"last_step", tag.last_step}});
      } else {
        rows.push_back({one_line(name), tag.kind, std::to_string(tag.count),
                        fmt::format("{}..{}", tag.first_step, tag.last_step), tag.last});
      }
    }
    if (!options_.as_json) print_table(rows);
  }

 private:
  struct Tag {
    std::string kind{};
    std::uint64_t count = 0;
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    std::string last{};
  };

  void add(const std::string& name, std::int64_t step, std::string kind, std::string last) {
    const auto [found, first] = tags_.try_emplace(name);
    Tag& tag = found->second;
    tag.kind = std::move(kind);
    tag.first_step = first ? step : std::min(tag.first_step, step);
    tag.last_step = first ? step : std::max(tag.last_step, step);
    tag.last = std::move(last);
    ++tag.count;
  }

  const EventsOptions& options_;
  std::map<std::string, Tag> tags_;
};

/// A row a value of the tags that were asked for.
class ValueReport final : public Report {
 public:
  explicit ValueReport(const EventsOptions& options) : options_(options) {}

  void take(const Event& event, const SummaryValue& value) override {
    const auto wanted = std::find(options_.tags.begin(), options_.tags.end(), value.tag);
    if (wanted == options_.tags.end()) return;
    found_.insert(value.tag);
    if (options_.as_json) {
      lines_.push_back({{"tag", value.tag},
                        {"step", event.step},
                        {"wall_time", event.wall_time},
                        {"kind", kind_of(value)},
                        {"value", json_of(value)}});
    } else {
      rows_.push_back({one_line(value.tag), std::to_string(event.step), time_text(event.wall_time),
                       text_of(value)});
    }
  }

  void check() const override {
    for (const auto& tag : options_.tags) {
      if (found_.contains(tag)) continue;
      throw NotFound("--tag: no values under \"{}\" in {}; without --tag all tags are listed", tag,
                     options_.path);
    }
  }

  void print() const override {
    for (std::size_t i = first_of(lines_); i < lines_.size(); ++i) print_json(lines_[i]);
    if (options_.as_json) return;
    std::vector<Row> rows{{"TAG", "STEP", "WALL TIME", "VALUE"}};
    rows.insert(rows.end(), rows_.begin() + static_cast<std::ptrdiff_t>(first_of(rows_)),
                rows_.end());
    print_table(rows);
  }

 private:
  template <typename List>
  std::size_t first_of(const List& list) const {
    return options_.limit > 0 && list.size() > options_.limit ? list.size() - options_.limit : 0;
  }

  const EventsOptions& options_;
  std::set<std::string> found_;
  std::vector<json> lines_;
  std::vector<Row> rows_;
};

void gather(const EventsOptions& options, Report& report) {
  EventReader reader{Path(options.path)};
  while (const auto event = reader.next()) {
    if (const auto* graph = std::get_if<GraphBytes>(&event->what))
      report.take_graph(*event, *graph);
    const auto* summary = std::get_if<Summary>(&event->what);
    if (summary == nullptr) continue;
    for (const auto& value : *summary) report.take(*event, value);
  }
  if (reader.torn_tails() > 0) {
    log::info("files that end inside a record, as they do while being written files={}",
              reader.torn_tails());
  }
}

void run(const EventsOptions& options) {
  std::unique_ptr<Report> report;
  if (options.tags.empty()) {
    report = std::make_unique<TagReport>(options);
  } else {
    report = std::make_unique<ValueReport>(options);
  }
  try {
    gather(options, *report);
  } catch (const DataLoss&) {
    report->print();  // The events before the damage are good.
    throw;
  }
  report->check();
  report->print();
}

void add_events_show(CLI::App& command) {
  const auto options = std::make_shared<EventsOptions>();
  command.add_option("PATH", options->path, "An event file, or a folder of them")->required();
  command.add_option("--tag", options->tags, "Print the values under this tag; may be repeated");
  command
      .add_option("--limit", options->limit,
                  "At most this many rows; of values, the latest; 0: all")
      ->capture_default_str();
  add_json_flag(command, options->as_json, "One JSON object per row, with complete values");
  command.callback([options] { run(*options); });
}

constexpr Command kEventsCommands[] = {
    {"show", "list the tags of event files, or the values under a tag", add_events_show},
};

}  // namespace

void add_events(CLI::App& command) { add_commands(command, kEventsCommands); }

}  // namespace muster::cli
