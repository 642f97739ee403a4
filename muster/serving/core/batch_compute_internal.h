#pragma once

#include <cstdint>
#include <vector>

#include "muster/serving/core/batch_queue.h"
#include "muster/serving/core/batch_ticket_internal.h"

namespace muster::serving {

/// Computes requests as one batch, filled up to the next of the ascending `sizes`, and leaves an
/// answer or a failure in each. Where that fails, each request is computed alone.
void compute_batch(const BatchQueue::Run& run, const std::vector<std::int64_t>& sizes,
                   const BatchTickets& batch);

}  // namespace muster::serving
