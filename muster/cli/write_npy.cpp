#include <fmt/core.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/cli/records_write.h"
#include "muster/cli/split_writer.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/npy.h"

namespace muster::cli {
namespace {

struct WriteNpyOptions {
  std::vector<std::string> inputs;
  std::vector<std::string> raw;
  OutputOptions output;
  SplitOptions split;
};

struct Feature {
  NpyArray array;
  bool raw = false;
};
using FeatureMap = std::map<std::string, Feature>;

template <typename T>
std::vector<T> elements(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

template <typename To, typename From>
std::vector<To> converted(std::string_view bytes) {
  const auto values = elements<From>(bytes);
  return {values.begin(), values.end()};
}

void add(ExampleBuilder& builder, const std::string& name, const Feature& feature,
         std::uint64_t i) {
  const std::string_view item = feature.array.item(i);
  if (feature.raw) {
    builder.add_bytes(name, item);
    return;
  }
  switch (feature.array.type) {
    case NpyType::kUint8:
      builder.add_ints(name, converted<std::int64_t, std::uint8_t>(item));
      break;
    case NpyType::kInt32:
      builder.add_ints(name, converted<std::int64_t, std::int32_t>(item));
      break;
    case NpyType::kInt64:
      builder.add_ints(name, elements<std::int64_t>(item));
      break;
    case NpyType::kFloat:
      builder.add_floats(name, elements<float>(item));
      break;
    case NpyType::kDouble:
      builder.add_floats(name, converted<float, double>(item));
      break;
    default:
      throw Unimplemented("the feature {} is of type {}; features are |u1, <i4, <i8, <f4, <f8",
                          name, name_of(feature.array.type));
  }
}

FeatureMap read_features(const WriteNpyOptions& options) {
  FeatureMap features;
  std::optional<std::pair<std::string, std::size_t>> first;
  for (const auto& input : options.inputs) {
    const auto equals = input.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("--input takes NAME=FILE.npy, not '{}'", input);
    }
    const std::string name = input.substr(0, equals);
    NpyArray array = read_npy(input.substr(equals + 1));
    if (!first) first = {name, array.items()};
    if (array.items() != first->second) {
      throw InvalidArgument("the feature {} has {} rows, but {} has {}", name, array.items(),
                            first->first, first->second);
    }
    if (!features.emplace(name, Feature{std::move(array)}).second) {
      throw UsageError("--input names the feature {} twice", name);
    }
  }
  for (const auto& name : options.raw) {
    const auto found = features.find(name);
    if (found == features.end())
      throw UsageError("--raw {} is none of the features of --input", name);
    found->second.raw = true;
  }
  return features;
}

void run(const WriteNpyOptions& options) {
  const FeatureMap features = read_features(options);
  write_split(options.output, options.split, features.begin()->second.array.items(),
              [&](std::uint64_t i, std::string& out) {
                ExampleBuilder builder;
                for (const auto& [name, feature] : features) add(builder, name, feature, i);
                builder.serialize_to(out);
              });
  fmt::print("Done!\n");
}

}  // namespace

void add_write_npy(CLI::App& command) {
  const auto options = std::make_shared<WriteNpyOptions>();
  command
      .add_option("--input", options->inputs,
                  "NAME=FILE.npy, one a feature; row i of all makes record i")
      ->required();
  command.add_option("--raw", options->raw, "Features to store as one string of bytes a row");
  add_output_flags(command, options->output);
  add_split_flags(command, options->split);
  command.callback([options] { run(*options); });
}

}  // namespace muster::cli
