#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/back_end.h"

namespace muster::jobs {

/// Returns the result of `read` for the job's block. Throws DataLoss for one that it cannot read.
template <typename Read>
auto read_block(const Job& job, Read read) {
  try {
    auto block = nlohmann::ordered_json::parse(job.block);
    if (!block.is_object()) throw DataLoss("job {}: its {} is no object", job.job_id, job.back_end);
    return read(std::move(block));
  } catch (const nlohmann::json::exception& error) {
    throw DataLoss("job {}: its {} cannot be read: {}", job.job_id, job.back_end, error.what());
  }
}

/// A block as Job keeps it.
inline std::string block_of(const nlohmann::ordered_json& block) {
  return block.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Calls refresh(); an error becomes a warning. Returns whether the back end answered.
bool refresh_or_warn(const BackEnd& back_end, const JobStore& store, const std::vector<Job>& jobs);

}  // namespace muster::jobs
