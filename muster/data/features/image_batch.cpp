#include "muster/data/features/image_batch.h"

#include <utility>

#include "muster/data/features/collate.h"

namespace muster {

Batch to_batch(ImageBatch images) {
  const std::int64_t count = images.count;
  Features features;
  features.add("image", tensor_of(std::move(images.values),
                                  {count, images.channels, images.height, images.width}));
  return make_batch(std::move(features), tensor_of(std::move(images.labels), {count, 1}));
}

}  // namespace muster
