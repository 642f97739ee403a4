#include "data.h"

#include <torch/types.h>

namespace {

constexpr std::size_t kShuffleWindow = 20'000;
constexpr std::size_t kImageBytes = kSide * kSide * kChannels;

/// As they are, and shifted by up to four pixels and mirrored.
constexpr muster::CropOptions kWhole{};
constexpr muster::CropOptions kRandom{.padding = 4, .mirror = true};

/// Turns records into a batch.
class Parser {
 public:
  explicit Parser(bool distorts) : distorts_(distorts) {}

  muster::Batch operator()(const std::vector<muster::Record>& records,
                           muster::Random& random) const {
    const auto rows = static_cast<std::int64_t>(records.size());
    const at::Tensor images = torch::empty({rows, kSide, kSide, kChannels}, torch::kByte);
    std::vector<std::int64_t> labels;
    auto* out = images.data_ptr<std::uint8_t>();
    muster::ExampleView view;
    for (const auto& record : records) {
      parser_.parse(record.bytes, view);
      const std::string_view planes = view[0].first_bytes();
      if (planes.size() != kImageBytes || view[1].count() != 1) {
        throw muster::InvalidArgument("an image has {} bytes and {} labels, not {} and 1",
                                      planes.size(), view[1].count(), kImageBytes);
      }
      const auto& options = distorts_ ? kRandom : kWhole;
      const muster::Crop crop = distorts_ ? muster::random_crop(options, random) : muster::Crop();
      muster::crop_planes({reinterpret_cast<const std::uint8_t*>(planes.data()), planes.size()},
                          options, crop, {out, kImageBytes});
      out += kImageBytes;
      labels.push_back(view[1].first_int64());
    }
    return muster::make_batch({{"image", images}}, muster::tensor_of(std::move(labels), {rows, 1}));
  }

 private:
  bool distorts_;
  muster::ExampleParser parser_{{"image", muster::kLabel}};
};

}  // namespace

muster::InputFn input(const std::vector<muster::Path>& files, std::size_t batch_size) {
  return [=](const muster::InputContext& in) {
    const bool trains = in.mode() == muster::Mode::kTrain;
    // Replicas count their batches alike, so each needs random numbers of its own.
    const std::uint64_t seed = muster::derive_key(in.seed(), in.shard_index());
    auto records = muster::tfrecords(files);
    if (trains) records = records.shard(in).repeat().shuffle(kShuffleWindow, seed);
    return records.batch(batch_size).map(Parser(trains), {.seed = seed}).prefetch(2);
  };
}

muster::ServingInput serving_input() {
  // Two rows tell names, types and shapes; what they show does not matter.
  const auto size = 2 * static_cast<std::int64_t>(kImageBytes);
  return muster::raw_serving_input(
      {{"image",
        torch::linspace(0, 255, size).to(torch::kByte).view({2, kSide, kSide, kChannels})}});
}

std::int64_t count_rows(const std::vector<muster::Path>& files) {
  const auto records = muster::tfrecords(files);
  if (const auto known = records.size()) return static_cast<std::int64_t>(*known);
  std::int64_t count = 0;
  for (auto reader = records.iterate(); reader->next();) ++count;
  return count;
}
