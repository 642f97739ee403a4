#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/wait.h"
#include "muster/serving/core/batch_queue.h"
#include "muster/serving/core/response_cache.h"
#include "muster/serving/core/servable.h"

namespace muster::serving {

/// A version that is served. Its holders may run it, also while it is being replaced.
class ModelVersion : public std::enable_shared_from_this<ModelVersion> {
 public:
  ModelVersion(std::string model, std::int64_t number, std::shared_ptr<const Servable> servable,
               const std::shared_ptr<ExecutionSlots>& slots, const BatchOptions& options,
               const std::shared_ptr<ResponseCache>& cache = nullptr);

  const std::string& model() const { return model_; }
  std::int64_t number() const { return number_; }
  const Signatures& signatures() const { return servable_->signatures(); }
  std::string_view platform() const { return servable_->platform(); }
  /// Nothing if there is none of that name.
  const graph::SignatureDef* find_signature(std::string_view name) const;

  /// Computes a request, together with others that wait. Throws NotFound for an unknown signature,
  /// and what BatchQueue::run throws.
  BatchAnswer run(std::string_view signature, const Tensors& inputs,
                  const Deadline& deadline = Deadline::never(), std::uint64_t priority = 0) const;
  /// The same without waiting, as BatchQueue::start has it. The caller holds the version
  /// until `done` is called. Throws NotFound.
  void start(std::string_view signature, Tensors inputs, const Deadline& deadline,
             std::uint64_t priority, BatchQueue::Done done) const;
  /// As Servable::explain has it, in this thread.
  Explanations explain(std::string_view signature, const Tensors& inputs,
                       const executor::ExplainOptions& options,
                       const std::optional<Tensors>& baseline) const {
    return servable_->explain(signature, inputs, options, baseline);
  }
  /// Answers that were given; null where none are kept.
  CachedAnswers* cached_answers() const { return cached_.get(); }
  /// Requests that wait, of all signatures.
  std::size_t waiting() const;

 private:
  BatchQueue& queue_of(std::string_view signature) const;

  std::string model_;
  std::int64_t number_;
  std::shared_ptr<const Servable> servable_;
  std::unique_ptr<CachedAnswers> cached_{};
  std::map<std::string, std::unique_ptr<BatchQueue>, std::less<>> queues_;
};

using ModelVersionPtr = std::shared_ptr<const ModelVersion>;

}  // namespace muster::serving
