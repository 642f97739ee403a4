#include "muster/serving/core/model_version.h"

#include <utility>

#include "muster/base/error.h"

namespace muster::serving {

ModelVersion::ModelVersion(std::string model, std::int64_t number,
                           std::shared_ptr<const Servable> servable,
                           const std::shared_ptr<ExecutionSlots>& slots,
                           const BatchOptions& options, const std::shared_ptr<ResponseCache>& cache)
    : model_(std::move(model)), number_(number), servable_(std::move(servable)) {
  if (cache) cached_ = std::make_unique<CachedAnswers>(cache);
  for (const auto& [name, signature] : servable_->signatures()) {
    queues_.emplace(
        name, std::make_unique<BatchQueue>(
                  slots, options, is_row_wise(signature),
                  [this, key = name](const Tensors& inputs) { return servable_->run(key, inputs); },
                  model_));
  }
}

const graph::SignatureDef* ModelVersion::find_signature(std::string_view name) const {
  const auto found = signatures().find(name);
  return found == signatures().end() ? nullptr : &found->second;
}

BatchQueue& ModelVersion::queue_of(std::string_view signature) const {
  const auto queue = queues_.find(signature);
  if (queue == queues_.end()) throw NotFound("Serving signature key \"{}\" not found.", signature);
  return *queue->second;
}

BatchAnswer ModelVersion::run(std::string_view signature, const Tensors& inputs,
                              const Deadline& deadline, std::uint64_t priority) const {
  return queue_of(signature).run(inputs, deadline, priority);
}

void ModelVersion::start(std::string_view signature, Tensors inputs, const Deadline& deadline,
                         std::uint64_t priority, BatchQueue::Done done) const {
  queue_of(signature).start(std::move(inputs), deadline, priority, std::move(done));
}

std::size_t ModelVersion::waiting() const {
  std::size_t count = 0;
  for (const auto& [name, queue] : queues_) count += queue->waiting();
  return count;
}

}  // namespace muster::serving
