#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "muster/platform/stores/object_api.h"

namespace muster::stores {

struct ClaimOptions {
  /// As MUSTER_CLAIM_LEASE_SECONDS says, where it is set.
  static ClaimOptions from_environment();

  /// A claim that was not renewed for so long may be taken over. Renewed three times as often.
  std::chrono::milliseconds lease = std::chrono::seconds(30);
};

/// Who writes to a folder of an object store: the object ".muster-writer" in it, made under the
/// precondition that there is none, and renewed under the precondition that it is still ours. No
/// clock is compared: a claim is over when it has not changed for the time of its lease as seen
/// from here, or at once when its process was one of this host that is gone. Where the store turns
/// out to ignore preconditions, a warning says so, and the claim is looked at before each write to
/// it: a second process is still refused, unless it writes in the same moment.
class ObjectClaim {
 public:
  static constexpr const char* kObjectName = ".muster-writer";

  /// Throws FailedPrecondition, naming the other process, when that is alive. `shown` is the folder
  /// as messages have it.
  ObjectClaim(std::shared_ptr<VersionedObjects> api, ObjectName object, std::string shown,
              const ClaimOptions& options = {});
  /// Removes the object, if it is still ours.
  ~ObjectClaim();
  ObjectClaim(const ObjectClaim&) = delete;
  ObjectClaim& operator=(const ObjectClaim&) = delete;

  /// Throws FailedPrecondition when another process has taken over. Asks the store when the claim
  /// was not renewed for the time of its lease.
  void check();

 private:
  using Clock = std::chrono::steady_clock;

  void acquire();
  bool take_free();
  void wait_for_end_of_other();
  void probe();
  void settle();
  std::string put_if(const Precondition& precondition);
  [[noreturn]] void throw_just_claimed() const;
  void take_over(const std::string& version, const std::string& why);
  void run(const std::stop_token& stop);
  void renew(std::unique_lock<std::mutex>& lock);
  std::string content();

  const std::shared_ptr<VersionedObjects> api_;
  const ObjectName object_;
  const std::string shown_;
  const ClaimOptions options_;
  std::mutex mutex_;
  std::condition_variable_any woken_;
  std::string token_;
  int renewals_ = 0;
  std::string version_;
  Clock::time_point renewed_;
  bool is_lost_ = false;
  bool ignores_preconditions_ = false;
  std::jthread thread_;
};

}  // namespace muster::stores
