#pragma once

#include <cstdint>

#include "muster/base/random.h"
#include "muster/data/images/image.h"
#include "muster/data/images/image_decoder.h"
#include "muster/data/images/image_files.h"
#include "muster/data/records/record.h"

namespace muster {

/// The usual augmentation of training pictures: a random part, resized, perhaps mirrored.
struct RandomResizedCrop {
  std::int64_t height = 224;
  std::int64_t width = 224;
  /// The share of the picture's area that a part has, every share as likely.
  double min_area = 0.08;
  double max_area = 1;
  /// Width over height, every ratio as likely on a logarithmic scale.
  double min_ratio = 3.0 / 4;
  double max_ratio = 4.0 / 3;
  /// How often left and right are exchanged.
  double mirror = 0.5;
  ResizeFilter filter = ResizeFilter::kBilinear;
  DecodeOptions decode{};

  /// Throws InvalidArgument, naming the field.
  void check() const;
};

/// A part of a picture of this size. Ten draws that do not fit into the picture give the largest
/// part in the middle with a ratio that is allowed.
ImageBox random_box(std::int64_t height, std::int64_t width, const RandomResizedCrop& options,
                    Random& random);
/// Decodes such a part and resizes it; the numbers it draws are as many for every picture.
Image random_resized_crop(ImageDecoder& decoder, const RandomResizedCrop& options, Random& random);

/// How pictures are evaluated: as if their shorter side were resized to `resize` pixels, and the
/// middle cut out.
struct CenterCrop {
  std::int64_t height = 224;
  std::int64_t width = 224;
  std::int64_t resize = 256;
  ResizeFilter filter = ResizeFilter::kBilinear;
  DecodeOptions decode{};

  /// Throws InvalidArgument, naming the field.
  void check() const;
};

ImageBox center_box(std::int64_t height, std::int64_t width, const CenterCrop& options);
Image center_crop(ImageDecoder& decoder, const CenterCrop& options);

/// The same of a file: functions for Dataset::map(). Errors name the file.
LabelledImage load_image(const ImageFile& file, const RandomResizedCrop& options, Random& random);
LabelledImage load_image(const ImageFile& file, const CenterCrop& options);

/// The same of a record of `muster records write images`, a tf.Example with the file's bytes in
/// `image`, `label`, and the file's name in `file`, which errors have. Throws DataLoss for others.
LabelledImage load_image(const Record& record, const RandomResizedCrop& options, Random& random);
LabelledImage load_image(const Record& record, const CenterCrop& options);

/// Exchanges left and right.
void mirror(Image& image);

}  // namespace muster
