#include "examples/cifar10/input.h"

#include <torch/types.h>

#include <memory>
#include <optional>
#include <utility>

namespace cifar10 {
namespace {

using muster::Batch;
using muster::Dataset;
using muster::Path;
using muster::Random;
using muster::Record;

constexpr muster::CropOptions kWhole{.image = {kSide, kSide}, .crop = {kSide, kSide}};

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// Reads `image` and `label` of one Example after the other.
class ExampleImages {
 public:
  /// Calls use(row, planes, label) for every record.
  template <typename Use>
  void read(std::span<const Record> records, const Use& use) const {
    muster::ExampleView view;
    for (std::size_t row = 0; row < records.size(); ++row) {
      parser_.parse(records[row].bytes, view);
      const std::string_view planes = view[0].first_bytes();
      if (planes.size() != muster::kCifar10ImageBytes || view[1].count() != 1) {
        throw muster::InvalidArgument(
            "image {} of a batch has {} bytes and {} labels, not {} bytes and 1: the files are not "
            "those of `muster records write cifar10`",
            row, planes.size(), view[1].count(), muster::kCifar10ImageBytes);
      }
      use(row, bytes_of(planes), view[1].first_int64());
    }
  }

 private:
  muster::ExampleParser parser_{{kImage, muster::kLabel}};
};

/// The tensors of a batch in the making.
struct Pixels {
  Pixels(std::size_t rows, const muster::ImageSize& size)
      : count(static_cast<std::int64_t>(rows)),
        image_bytes(static_cast<std::size_t>(size.pixels() * kChannels)),
        images(torch::empty({count, size.height, size.width, kChannels}, torch::kByte)),
        labels(torch::empty({count, 1}, torch::kLong)) {}

  std::span<std::uint8_t> image(std::size_t row) const {
    return {images.data_ptr<std::uint8_t>() + row * image_bytes, image_bytes};
  }
  void set_label(std::size_t row, std::int64_t label) const {
    labels.data_ptr<std::int64_t>()[row] = label;
  }

  std::int64_t count;
  std::size_t image_bytes;
  at::Tensor images;
  at::Tensor labels;
};

struct WholeImages {
  ExampleImages examples{};

  Batch operator()(const std::vector<Record>& records) const {
    const Pixels pixels(records.size(), kWhole.crop);
    examples.read(records, [&](std::size_t row, auto planes, std::int64_t label) {
      muster::crop_planes(planes, kWhole, {}, pixels.image(row));
      pixels.set_label(row, label);
    });
    return muster::make_batch({{kImage, pixels.images}}, pixels.labels);
  }
};

/// Each image with its own random numbers, drawn in the order of the batch.
struct DistortedImages {
  Distortion distortion{};
  ExampleImages examples{};

  Batch operator()(const std::vector<Record>& records, Random& random) const {
    return distortion.crop_later ? whole_with_crops(records, random) : cropped(records, random);
  }

 private:
  Batch cropped(const std::vector<Record>& records, Random& random) const {
    const Pixels pixels(records.size(), distortion.crop.crop);
    examples.read(records, [&](std::size_t row, auto planes, std::int64_t label) {
      const auto crop = muster::random_crop(distortion.crop, random);
      muster::crop_planes(planes, distortion.crop, crop, pixels.image(row));
      pixels.set_label(row, label);
    });
    const auto images = distortion.changes_colours() ? recoloured(pixels, random) : pixels.images;
    return muster::make_batch({{kImage, images}}, pixels.labels);
  }

  Batch whole_with_crops(const std::vector<Record>& records, Random& random) const {
    Batch batch = WholeImages{examples}(records);
    std::vector<muster::Crop> crops;
    crops.reserve(records.size());
    for (std::size_t row = 0; row < records.size(); ++row) {
      crops.push_back(muster::random_crop(distortion.crop, random));
    }
    batch.features.add(kCrop, muster::crops_tensor(crops));
    return batch;
  }

  at::Tensor recoloured(const Pixels& pixels, Random& random) const {
    const at::Tensor images = pixels.images.to(torch::kFloat);
    for (std::int64_t row = 0; row < pixels.count; ++row) {
      const std::span<float> image(
          images.data_ptr<float>() + row * static_cast<std::int64_t>(pixels.image_bytes),
          pixels.image_bytes);
      if (distortion.max_brightness > 0) {
        const double delta = random.uniform(-distortion.max_brightness, distortion.max_brightness);
        muster::adjust_brightness(image, static_cast<float>(delta));
      }
      const double factor = random.uniform(distortion.min_contrast, distortion.max_contrast);
      if (factor != 1) muster::adjust_contrast(image, kChannels, static_cast<float>(factor));
    }
    return images;
  }
};

// The window of cifar10_estimator, of the part of the images that one replica reads.
std::size_t shuffle_window(const TrainingInput& input, std::uint64_t shards) {
  const auto part = static_cast<std::uint64_t>(input.images) / shards;
  return static_cast<std::size_t>(part * 2 / 5 + 3 * static_cast<std::uint64_t>(input.batch_size));
}

std::vector<Path> files_of_one(const Path& folder, const std::string& subset) {
  // The second form is that of the earlier original: a file for each of the data set's batches.
  const std::vector<std::pair<std::string, std::string>> patterns = {
      {"train", "data_batch_[1-4].tfrecords"},
      {"validation", "data_batch_5.tfrecords"},
      {"eval", "test_batch.tfrecords"}};
  for (const auto& [name, other] : patterns) {
    if (name != subset) continue;
    auto files = muster::glob(folder / (name + "*.tfrecords"));
    if (files.empty()) files = muster::glob(folder / other);
    if (!files.empty()) return files;
    throw muster::UsageError(
        "--data-dir: {} has no {}.tfrecords; `muster records write cifar10 --input CIFAR --output "
        "{}` makes it",
        folder.string(), name, folder.string());
  }
  throw muster::UsageError("there is no subset '{}': train, validation and eval are there", subset);
}

}  // namespace

std::vector<Path> files_of_subset(const Path& folder, const std::string& subset) {
  std::vector<Path> files;
  for (std::size_t begin = 0; begin <= subset.size();) {
    const std::size_t end = std::min(subset.find('+', begin), subset.size());
    const auto found = files_of_one(folder, subset.substr(begin, end - begin));
    files.insert(files.end(), found.begin(), found.end());
    begin = end + 1;
  }
  return files;
}

std::int64_t count_images(const std::vector<Path>& files) {
  const auto records = muster::tfrecords(files);
  if (const auto known = records.size()) return static_cast<std::int64_t>(*known);
  std::int64_t count = 0;
  for (auto reader = records.iterate(); reader->next();) ++count;
  return count;
}

Dataset<Batch> training_batches(const TrainingInput& input, const muster::InputContext& in) {
  // Replicas count their batches alike, so each needs random numbers of its own.
  const std::uint64_t seed = muster::derive_key(in.seed(), in.shard_index());
  const auto records = muster::tfrecords(input.files)
                           .shard(in)
                           .repeat()
                           .shuffle(shuffle_window(input, in.num_shards()), seed)
                           .batch(static_cast<std::size_t>(input.batch_size));
  const muster::MapOptions options{.parallelism = input.threads, .seed = seed};
  const auto batches = input.distortion ? records.map(DistortedImages{*input.distortion}, options)
                                        : records.map(WholeImages{}, options);
  if (input.same_batch) return batches.take(1).cache().repeat();
  // Several threads work ahead by themselves.
  return input.threads > 1 ? batches : batches.prefetch(2);
}

muster::InputFn training_input(TrainingInput input) {
  if (input.distortion) input.distortion->crop.check();
  return [input = std::move(input)](const muster::InputContext& in) {
    return training_batches(input, in);
  };
}

muster::InputFn evaluation_input(std::vector<Path> files, std::int64_t batch_size) {
  return [=, files = std::move(files)](const muster::InputContext&) {
    return muster::tfrecords(files)
        .batch(static_cast<std::size_t>(batch_size))
        .map(WholeImages{})
        .prefetch(2);
  };
}

}  // namespace cifar10
