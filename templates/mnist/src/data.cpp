#include "data.h"

#include <torch/types.h>

namespace {

constexpr std::size_t kShuffleWindow = 10'000;

/// Turns records into a batch.
class Parser {
 public:
  explicit Parser(muster::Mode mode) : specs_(specs_for(mode)), decoder_(specs_) {}

  muster::Batch operator()(std::span<const muster::Record> records) const {
    std::vector<std::string_view> examples;
    for (const auto& record : records) examples.push_back(record.bytes);
    return split_labels(to_features(decoder_.decode(examples), specs_, nullptr));
  }

 private:
  static muster::FeatureSpecs specs_for(muster::Mode mode) {
    muster::FixedLen label{muster::FeatureKind::kInt64, {1}};
    if (mode == muster::Mode::kPredict) label.default_value = std::vector<std::int64_t>{-1};
    return {{"image", muster::FixedLen{muster::FeatureKind::kFloat, {kPixels}}},
            {muster::kLabel, label}};
  }

  muster::FeatureSpecs specs_;
  muster::ExampleDecoder decoder_;
};

}  // namespace

muster::InputFn input(const std::vector<muster::Path>& files, std::size_t batch_size) {
  return [=](const muster::InputContext& in) {
    auto records = muster::tfrecords(files);
    if (in.mode() == muster::Mode::kTrain) {
      records = records.shuffle(kShuffleWindow, in.seed()).shard(in).repeat();
    }
    return records.batch(batch_size, Parser(in.mode())).prefetch(2);
  };
}

muster::ServingInput serving_input() {
  // Two rows tell names, types and shapes; what they show does not matter.
  return muster::raw_serving_input(
      {{"image", torch::linspace(0, 1, 2 * kPixels).view({2, kPixels})}});
}

std::int64_t count_rows(const std::vector<muster::Path>& files) {
  const auto records = muster::tfrecords(files);
  if (const auto known = records.size()) return static_cast<std::int64_t>(*known);
  std::int64_t count = 0;
  for (auto reader = records.iterate(); reader->next();) ++count;
  return count;
}
