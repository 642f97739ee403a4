#include "muster/export/serving_input.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

void check_specs(const FeatureSpecs& specs) {
  if (specs.empty()) throw InvalidArgument("a serving input needs at least one feature");
  const ExampleDecoder checked(specs);
}

void check_key(const std::string& key) {
  if (key.empty()) throw InvalidArgument("the one input of a serving input needs a name");
}

}  // namespace

ServingInput raw_serving_input(Features example) {
  if (example.batch_size() < 2) {
    throw InvalidArgument(
        "a raw serving input needs an example of two rows or more that are not alike, and this one "
        "has {}",
        example.batch_size());
  }
  return {.kind = ServingInput::Kind::kRaw, .example = std::move(example)};
}

ServingInput json_serving_input(const FeatureColumnList& columns) {
  return json_serving_input(make_parse_example_spec(columns));
}

ServingInput json_serving_input(FeatureSpecs specs) {
  check_specs(specs);
  return {.kind = ServingInput::Kind::kNamedTensors, .specs = std::move(specs)};
}

ServingInput csv_serving_input(CsvServingOptions options) {
  check_key(options.key);
  const CsvDecoder checked(options.fields, options.csv);
  return {.kind = ServingInput::Kind::kCsv,
          .fields = std::move(options.fields),
          .csv = std::move(options.csv),
          .key = std::move(options.key)};
}

ServingInput example_serving_input(FeatureSpecs specs, std::string key) {
  check_key(key);
  check_specs(specs);
  return {.kind = ServingInput::Kind::kExample, .specs = std::move(specs), .key = std::move(key)};
}

ServingInput example_serving_input(const FeatureColumnList& columns, std::string key) {
  return example_serving_input(make_parse_example_spec(columns), std::move(key));
}

ServingInput with_alternative(ServingInput input, std::string name, ServingInput alternative) {
  const bool taken =
      std::ranges::any_of(input.alternatives, [&](const auto& held) { return held.name == name; });
  if (name.empty() || taken) {
    throw InvalidArgument("an alternative serving input needs a name of its own: '{}'", name);
  }
  if (!alternative.alternatives.empty()) {
    throw InvalidArgument("the alternative serving input '{}' has alternatives itself", name);
  }
  input.alternatives.push_back({std::move(name), std::move(alternative)});
  return input;
}

}  // namespace muster
