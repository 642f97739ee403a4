#include "muster/data/features/parse_examples.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "muster/data/features/collate.h"

namespace muster {
namespace {

/// Memory that a parsed batch has views into: the records, and the decoder with its default
/// strings.
struct ParsedFrom {
  std::vector<Record> records{};
  std::shared_ptr<const ExampleDecoder> decoder{};
};

std::vector<std::string> labels_in(const FeatureSpecs& specs, std::vector<std::string> names) {
  std::erase_if(names, [&specs](const std::string& name) {
    return std::none_of(specs.begin(), specs.end(),
                        [&name](const auto& spec) { return spec.first == name; });
  });
  return names;
}

}  // namespace

std::function<Batch(std::span<const Record>)> parse_examples(FeatureSpecs specs,
                                                             std::vector<std::string> label_names) {
  auto decoder = std::make_shared<const ExampleDecoder>(specs);
  auto labels = labels_in(specs, std::move(label_names));
  return [specs = std::move(specs), decoder = std::move(decoder),
          labels = std::move(labels)](std::span<const Record> records) {
    auto owner =
        std::make_shared<const ParsedFrom>(ParsedFrom{{records.begin(), records.end()}, decoder});
    std::vector<std::string_view> examples;
    examples.reserve(records.size());
    for (const Record& record : owner->records) examples.push_back(record.bytes);
    ParsedColumns columns = decoder->decode(examples);
    return split_labels(to_features(std::move(columns), specs, std::move(owner)), labels);
  };
}

}  // namespace muster
