#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "muster/base/random.h"
#include "muster/data/images/image.h"

namespace muster {

/// One change of a picture. Those of geometry fill what comes from outside with grey.
enum class ImageChange : std::uint8_t {
  kIdentity,
  /// Stretches each channel from its darkest value to its brightest over all values.
  kAutoContrast,
  /// Makes the values of each channel about as frequent as each other.
  kEqualize,
  /// By degrees.
  kRotate,
  /// Inverts values that are at least so large.
  kSolarize,
  /// Keeps so many bits of each value.
  kPosterize,
  /// These four blend with grey, the mean, black and a blurred picture: 1 changes nothing.
  kColour,
  kContrast,
  kBrightness,
  kSharpness,
  /// By a share of the picture's size.
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
};
inline constexpr int kImageChanges = 14;

/// One change with its strength, whose meaning is above. Throws InvalidArgument for a picture that
/// is neither grey nor RGB, and for a strength that is not finite.
void change_image(Image& image, ImageChange change, double strength);

struct ColourJitter {
  /// Factors are drawn from 1 - x to 1 + x, but not below 0.
  double brightness = 0.4;
  double contrast = 0.4;
  double saturation = 0.4;
  /// The hue moves by up to this share of the circle, at most 0.5.
  double hue = 0.1;

  /// Throws InvalidArgument, naming the field.
  void check() const;
};

/// The four in a random order. It draws as many numbers for every picture.
void jitter_colours(Image& image, const ColourJitter& options, Random& random);
/// Moves the hue of an RGB picture by a share of the circle; a grey one stays.
void shift_hue(Image& image, double shift);

struct RandAugment {
  /// Changes of each picture.
  int changes = 2;
  /// From 0 to `levels`.
  int strength = 9;
  int levels = 30;

  /// Throws InvalidArgument, naming the field.
  void check() const;
};

/// RandAugment (Cubuk et al., 2019): so many changes, each as likely, with the same strength.
void rand_augment(Image& image, const RandAugment& options, Random& random);

}  // namespace muster
