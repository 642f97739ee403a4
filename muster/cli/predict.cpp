#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cli/command.h"
#include "muster/cli/predict_flags.h"
#include "muster/cli/saved_model_argument.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving/batch/prediction_step.h"
#include "muster/serving/codec/instances.h"
#include "muster/serving/codec/predictions.h"
#include "muster/serving/codec/signature_choice.h"
#include "muster/serving/executable/run_signature.h"

namespace muster::cli {
namespace {

using serving::in_step;
using serving::Instances;
using serving::kInputsStep;
using serving::kLoadStep;
using serving::kOutputsStep;
using serving::kRunStep;
using serving::Predictions;
using serving::Tensors;

constexpr std::uint64_t kMostInputBytes = std::uint64_t{1} << 30;

std::string read_input(const std::string& file) {
  if (file != "-") return read_file(file, kMostInputBytes);
  std::string text;
  char piece[1 << 16];
  while (std::cin.read(piece, sizeof piece) || std::cin.gcount() > 0) {
    text.append(piece, static_cast<std::size_t>(std::cin.gcount()));
    if (text.size() > kMostInputBytes) {
      throw ResourceExhausted("standard input is larger than the {} bytes that are allowed here",
                              kMostInputBytes);
    }
  }
  return text;
}

Instances parsed(const std::string& file, Instances (*parse)(std::string_view text)) {
  const std::string text = read_input(file);
  try {
    return parse(text);
  } catch (Error& error) {
    error.add_context(file == "-" ? "standard input" : file);
    throw;
  }
}

Instances read_instances(const PredictFlags& flags) {
  if (!flags.json_request.empty()) return parsed(flags.json_request, Instances::from_request);
  if (!flags.json_instances.empty()) {
    return parsed(flags.json_instances, Instances::from_json_lines);
  }
  return parsed(flags.text_instances, Instances::from_text_lines);
}

Predictions predict(const PredictFlags& flags, const Instances& instances) {
  const Path dir = in_step(kLoadStep, [&] { return find_saved_model(flags.model_dir); });
  graph::SavedModel saved = in_step(kLoadStep, [&] { return graph::read_saved_model(dir); });
  const std::vector<std::string> tags = tags_of(flags.tag_set);
  const graph::MetaGraph& meta = in_step(
      kLoadStep, [&]() -> const graph::MetaGraph& { return graph::find_meta_graph(saved, tags); });
  // Inputs come before the variables are read: what is wrong with them is known at once.
  const std::string name = in_step(kInputsStep, [&] {
    return serving::choose_signature(
        meta, flags.signature_name.empty() ? instances.signature_name() : flags.signature_name);
  });
  const Tensors inputs =
      in_step(kInputsStep, [&] { return instances.tensors(graph::find_signature(meta, name)); });
  const auto model = in_step(kLoadStep, [&] {
    return executor::ExecutableModel::from(
        meta, dir, {.tags = tags, .signatures = {name}, .limits = flags.limits});
  });
  Tensors outputs = in_step(kRunStep, [&] { return serving::run_signature(model, name, inputs); });
  return in_step(kOutputsStep, [&] { return Predictions(std::move(outputs)); });
}

std::string upper_case(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

// Width of UTF-8 text, one column per character.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void print_table(const Predictions& predictions) {
  std::vector<std::vector<std::string>> columns;
  std::vector<std::size_t> widths;
  for (const std::string& key : predictions.keys()) {
    auto& column = columns.emplace_back();
    column.push_back(upper_case(key));
    for (std::int64_t row = 0; row < predictions.size(); ++row) {
      column.push_back(predictions.cell(row, key));
    }
    std::size_t width = 0;
    for (const auto& cell : column) width = std::max(width, width_of(cell));
    widths.push_back(width);
  }
  for (std::size_t row = 0; row <= static_cast<std::size_t>(predictions.size()); ++row) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string& cell = columns[i][row];
      line += cell;
      if (i + 1 < columns.size()) line.append(widths[i] - width_of(cell) + 2, ' ');
    }
    fmt::print("{}\n", line);
  }
}

void print_json(const Predictions& predictions) {
  // Whole before it is printed: a value that cannot be written leaves no half an answer.
  std::string text = "{\"predictions\": [";
  for (std::int64_t row = 0; row < predictions.size(); ++row) {
    text += (row == 0 ? "\n  " : ",\n  ") + predictions.json(row);
  }
  fmt::print("{}\n]}}\n", text);
}

void run_predict(const PredictFlags& flags) {
  if (!flags.framework.empty()) {
    log::info("--framework {} is ignored: every model is a SavedModel", flags.framework);
  }
  const Instances instances = read_instances(flags);
  const Predictions predictions = predict(flags, instances);
  in_step(kOutputsStep,
          [&] { flags.as_json ? print_json(predictions) : print_table(predictions); });
}

}  // namespace

void add_predict(CLI::App& command) {
  const auto flags = std::make_shared<PredictFlags>();
  add_predict_flags(command, *flags);
  command.callback([flags] { run_predict(*flags); });
}

}  // namespace muster::cli
