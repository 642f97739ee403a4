#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/muster.h"

namespace cifar10 {

inline constexpr std::int64_t kSide = 32;
inline constexpr std::int64_t kChannels = 3;
/// Feature names. Crops are there only where the model is to do the cropping.
inline constexpr const char* kImage = "image";
inline constexpr const char* kCrop = "crop";

/// The TFRecord files of a part of the data: "train", "validation", "eval" or "train+validation".
/// Throws UsageError, saying how to make them, where there are none.
std::vector<muster::Path> files_of_subset(const muster::Path& folder, const std::string& subset);

/// How many records the files have: their indexes say so, or they are counted.
std::int64_t count_images(const std::vector<muster::Path>& files);

/// Augmentation of a training image: cropped out of the padded image, perhaps mirrored, and then
/// its colours changed.
struct Distortion {
  muster::CropOptions crop{};
  double max_brightness = 0;
  double min_contrast = 1;
  double max_contrast = 1;
  /// Hands over whole images and where to cut, for crop_images().
  bool crop_later = false;

  bool changes_colours() const {
    return max_brightness > 0 || min_contrast != max_contrast || min_contrast != 1;
  }
};

struct TrainingInput {
  std::vector<muster::Path> files{};
  /// Images in all of them.
  std::int64_t images = 0;
  /// Batch size of one replica.
  std::int64_t batch_size = 128;
  /// Nothing: images as they are.
  std::optional<Distortion> distortion{};
  /// That make batches; with 1 there is one that works ahead.
  std::size_t threads = 1;
  /// Gives the first batch again and again.
  bool same_batch = false;
};

/// The images of a shard again and again, in a random order within a window of 0.4 epochs and three
/// batches, as cifar10_estimator has it: `image` uint8 [n, height, width, 3] (float where colours
/// are changed), `label` int64 [n, 1]. Its position can be saved and restored to the image.
muster::Dataset<muster::Batch> training_batches(const TrainingInput& input,
                                                const muster::InputContext& in);
muster::InputFn training_input(TrainingInput input);

/// All images once, in order.
muster::InputFn evaluation_input(std::vector<muster::Path> files, std::int64_t batch_size);

}  // namespace cifar10
