#include "muster/orchestration/jobs/submission.h"

#include <utility>

namespace muster::jobs {

void FlagValues::add(const std::string& flag, std::string value) {
  values_[flag].push_back(std::move(value));
}

std::string FlagValues::text(const std::string& flag, std::string otherwise) const {
  const auto found = values_.find(flag);
  return found == values_.end() ? std::move(otherwise) : found->second.back();
}

std::vector<std::string> FlagValues::all(const std::string& flag) const {
  const auto found = values_.find(flag);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

}  // namespace muster::jobs
