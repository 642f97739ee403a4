#include "muster/cli/explain_flags.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/lines.h"
#include "muster/base/log.h"
#include "muster/cli/command.h"
#include "muster/cli/limit_flags.h"
#include "muster/serving/codec/instances.h"

namespace muster::cli {
namespace {

using ordered_request = nlohmann::ordered_json;

constexpr std::uint64_t kMostExplainedBytes = std::uint64_t{1} << 30;

std::string explained_text(const std::string& file) {
  if (file != "-") return read_file(file, kMostExplainedBytes);
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

ordered_request parsed_object(const std::string& text, const std::string& file) {
  ordered_request parsed = ordered_request::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_object()) return parsed;
  throw InvalidArgument("{}: it must hold a JSON object", file == "-" ? "standard input" : file);
}

ordered_request instances_of(const PredictFlags& flags) {
  const bool is_json = !flags.json_instances.empty();
  const std::string text = explained_text(is_json ? flags.json_instances : flags.text_instances);
  // It says which line is wrong.
  if (is_json) {
    serving::Instances::from_json_lines(text);
  } else {
    serving::Instances::from_text_lines(text);
  }
  ordered_request list = ordered_request::array();
  for (const std::string_view line : lines_of(without_byte_order_mark(text))) {
    list.push_back(is_json ? ordered_request::parse(line) : ordered_request(line));
  }
  return list;
}

// Sum of the numbers in lists inside each other, and the sizes of these.
double sum_of_parts(const ordered_request& part) {
  if (!part.is_array()) return part.get<double>();
  double sum = 0;
  for (const ordered_request& inner : part) sum += sum_of_parts(inner);
  return sum;
}
std::string sizes_of_parts(const ordered_request& part) {
  std::vector<std::size_t> sizes;
  for (const ordered_request* inner = &part; inner->is_array(); inner = &inner->front()) {
    sizes.push_back(inner->size());
    if (inner->empty()) break;
  }
  return sizes.empty() ? "" : fmt::format(" [{}]", fmt::join(sizes, ", "));
}

void print_attribution(std::size_t number, const ordered_request& one) {
  fmt::print("instance {}: {}[{}] = {:.6g}, at the baseline {:.6g} ({} steps, error {:.1g})\n",
             number, one.at("outputName").get<std::string>(), one.at("outputIndex").at(0).dump(),
             one.at("instanceOutputValue").get<double>(),
             one.at("baselineOutputValue").get<double>(), one.at("steps").dump(),
             one.at("approximationError").get<double>());
  std::vector<std::pair<std::string, double>> rows;
  for (const auto& [feature, part] : one.at("featureAttributions").items()) {
    rows.emplace_back(feature + sizes_of_parts(part), sum_of_parts(part));
  }
  std::ranges::stable_sort(rows, std::greater<>(),
                           [](const auto& row) { return std::abs(row.second); });
  std::size_t width = std::string_view("FEATURE").size();
  for (const auto& row : rows) width = std::max(width, row.first.size());
  fmt::print("{:<{}}  ATTRIBUTION\n", "FEATURE", width);
  for (const auto& [feature, part] : rows) fmt::print("{:<{}}  {:.6g}\n", feature, width, part);
  if (one.at("isComplete").get<bool>()) return;
  log::warning(
      "instance {}: the attributions do not add up to the difference of the outputs: more "
      "--max-steps or another --baseline may help",
      number);
}

}  // namespace

void add_explain_flags(CLI::App& command, ExplainFlags& flags) {
  add_instance_flags(command, flags.of);
  command.add_option("--output", flags.options.output,
                     "The output that is explained (the only one of numbers, or logits)");
  command.add_option("--index", flags.options.index, "Which of its numbers (the largest)");
  command.add_option("--steps", flags.options.steps, "Steps from the baseline to the instance")
      ->capture_default_str();
  command
      .add_option("--max-steps", flags.options.max_steps,
                  "Steps are doubled up to this number while the attributions do not add up")
      ->capture_default_str();
  command
      .add_option("--tolerance", flags.options.tolerance,
                  "What may be missing, as a part of the difference of the outputs")
      ->capture_default_str();
  command.add_option("--baseline", flags.baseline,
                     "A file with the JSON instance to start from (zeros)");
  add_json_flag(command, flags.as_json, "One JSON object, {\"explanations\": [...]}");
  add_limit_flags(command, flags.of.limits);
}

std::string explain_request(const ExplainFlags& flags) {
  flags.options.check();
  const PredictFlags& of = flags.of;
  ordered_request body = ordered_request::object();
  if (of.json_request.empty()) {
    body["instances"] = instances_of(of);
  } else {
    body = parsed_object(explained_text(of.json_request), of.json_request);
  }
  if (!of.signature_name.empty()) body["signature_name"] = of.signature_name;
  ordered_request& parameters = body["parameters"];
  if (!parameters.is_object()) parameters = ordered_request::object();
  const executor::ExplainOptions defaults;
  const auto set = [&](const char* name, const auto& value, const auto& usual) {
    if (value != usual) parameters[name] = value;
  };
  set("output", flags.options.output, defaults.output);
  if (flags.options.index) parameters["index"] = *flags.options.index;
  set("steps", flags.options.steps, defaults.steps);
  set("max_steps", flags.options.max_steps, defaults.max_steps);
  set("tolerance", flags.options.tolerance, defaults.tolerance);
  if (!flags.baseline.empty()) {
    parameters["baseline"] = ordered_request::parse(explained_text(flags.baseline), nullptr,
                                                    /*allow_exceptions=*/false);
    if (parameters["baseline"].is_discarded()) {
      throw InvalidArgument("--baseline {}: it must hold one instance as JSON", flags.baseline);
    }
  }
  return body.dump();
}

void print_explanations(const std::string& answer, bool as_json) {
  if (as_json) {
    fmt::print("{}", answer);
    return;
  }
  const ordered_request all = ordered_request::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object() || !all.contains("explanations")) {
    throw DataLoss("the answer holds no explanations: {}", answer.substr(0, 200));
  }
  std::size_t number = 0;
  for (const ordered_request& one : all["explanations"]) {
    if (number > 0) fmt::print("\n");
    print_attribution(++number, one.at("attributions").at(0));
  }
}

}  // namespace muster::cli
