#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/cli/checkpoint.h"
#include "muster/cli/progress.h"
#include "muster/data/checkpoint/bundle_files.h"
#include "muster/data/weights/weight_map.h"
#include "muster/data/weights/weights.h"

namespace muster::cli {
namespace {

struct ConvertOptions {
  std::string input;
  std::string output;
  std::string format;
  std::string key;
  std::string map;
  std::vector<std::string> rules;
  bool overwrite = false;
};

/// Rules of --map, then those of --rule.
WeightMap map_of(const ConvertOptions& options) {
  WeightMap map;
  if (!options.map.empty()) map = WeightMap::read(options.map);
  for (const std::string& rule : options.rules) map.append(WeightMap::parse(rule, "--rule"));
  return map;
}

void check_output(const Path& output, WeightFormat format) {
  const Path file = format == WeightFormat::kBundle ? bundle_index_path(output) : output;
  if (!file_exists(file)) return;
  throw AlreadyExists("{} is there already; give another name, or --overwrite", file.string());
}

void convert(const ConvertOptions& options) {
  const Path output = options.output;
  const WeightFormat format =
      options.format.empty() ? weight_format_of(output) : weight_format_named(options.format);
  const WeightMap map = map_of(options);
  if (!options.overwrite) check_output(output, format);
  const Weights weights = open_weights(options.input, {.key = options.key});
  const auto tensors = map.apply(weights.tensors);
  write_weights(output, tensors, {.format = format, .metadata = weights.metadata});
  std::uint64_t bytes = 0;
  for (const Weight& weight : tensors) bytes += element_bytes(weight);
  fmt::print("{} tensors, {}, from {} ({}) to {} ({})\n", tensors.size(),
             human_bytes(static_cast<double>(bytes)), weights.path.string(),
             name_of(weights.format), output.string(), name_of(format));
  if (!weights.others.empty()) {
    fmt::print(stderr, "no tensors, or not of the model, and left out: {}\n",
               printable_line(fmt::format("{}", fmt::join(weights.others, ", "))));
  }
}

}  // namespace

void add_checkpoint_convert(CLI::App& command) {
  const auto options = std::make_shared<ConvertOptions>();
  command
      .add_option(
          "IN", options->input,
          "A file of weights, the index of a sharded one, a checkpoint's prefix, or a folder "
          "with one of these")
      ->required();
  command
      .add_option("OUT", options->output,
                  "The file to write; without an ending, the prefix of a tensor bundle")
      ->required();
  command.add_option("--format", options->format,
                     "What to write, where the ending of OUT does not tell");
  command.add_option(
      "--key", options->key,
      "Of a PyTorch file, the key of the dictionary to read, ema/state_dict for one in "
      "another; by default state_dict, model and the like, or all");
  command.add_option("--map", options->map, "A file of rules, one per line");
  command
      .add_option(
          "--rule", options->rules,
          "A rule after those of --map: 'rename PATTERN NAME', 'replace PATTERN TEXT', "
          "'permute PATTERN DIMENSION...', 'split PATTERN DIMENSION NAME...', 'join PATTERN "
          "OTHER... DIMENSION NAME', 'drop PATTERN'; may come several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--overwrite", options->overwrite, "Replace OUT if it is there");
  command.callback([options] { convert(*options); });
}

}  // namespace muster::cli
