#include "muster/serving/core/fair_share.h"

#include <algorithm>

#include "muster/base/error.h"

namespace muster::serving {

FairShare::FairShare(std::size_t capacity) : shared_(capacity - capacity / 4) {}

FairShare::Part::Part(FairShare& share, const std::string& owner) : share_(share), owner_(owner) {
  const std::lock_guard lock(share_.mutex_);
  std::size_t& count = share_.owners_[owner_];
  const std::size_t most = std::max<std::size_t>(1, share_.shared_ / share_.owners_.size());
  if (count >= most) {
    throw ResourceExhausted(
        "{} requests for {} are being answered, which is its share; try again later", count,
        owner_);
  }
  ++count;
}

FairShare::Part::~Part() {
  const std::lock_guard lock(share_.mutex_);
  const auto found = share_.owners_.find(owner_);
  if (--found->second == 0) share_.owners_.erase(found);
}

}  // namespace muster::serving
