#pragma once

#include <string>

#include "muster/data/images/image.h"

namespace muster {

/// A JPEG file of a grey or RGB picture, with `quality` from 1 to 100, and colours at half the
/// resolution. Throws InvalidArgument for a quality or a picture that cannot be written.
std::string encode_jpeg(const Image& image, int quality = 90);

}  // namespace muster
