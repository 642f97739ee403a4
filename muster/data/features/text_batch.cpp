#include "muster/data/features/text_batch.h"

#include <utility>

#include "muster/data/features/collate.h"

namespace muster {

Batch to_batch(TextBatch texts) {
  const std::int64_t count = texts.count;
  const std::vector<std::int64_t> shape{count, texts.length};
  Features features;
  features.add("input_ids", tensor_of(std::move(texts.ids), shape));
  features.add("attention_mask", tensor_of(std::move(texts.mask), shape));
  features.add("token_type_ids", tensor_of(std::move(texts.token_types), shape));
  return make_batch(std::move(features), tensor_of(std::move(texts.labels), {count, 1}));
}

}  // namespace muster
