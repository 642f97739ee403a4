#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "muster/platform/stores/object_claim.h"

namespace muster::stores {

/// Called when a file is about to be seen by others: throws where it must not.
using Permit = std::function<void()>;

/// The folders that this process has claimed, or has lost. Any thread may use it.
class HeldClaims {
 public:
  void add(const std::string& folder, const std::shared_ptr<ObjectClaim>& claim) {
    const std::lock_guard lock(mutex_);
    claims_[folder] = claim;
  }

  /// For files that lie directly in a folder. It must not outlive this.
  Permit permit_for(std::string folder) {
    return [this, folder = std::move(folder)] {
      std::shared_ptr<ObjectClaim> claim;
      {
        const std::lock_guard lock(mutex_);
        if (const auto found = claims_.find(folder); found != claims_.end()) {
          claim = found->second.lock();
        }
      }
      if (claim) claim->check();
    };
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<ObjectClaim>> claims_;
};

}  // namespace muster::stores
