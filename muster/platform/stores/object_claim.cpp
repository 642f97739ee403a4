#include "muster/platform/stores/object_claim.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/base/process_stat.h"
#include "muster/base/random_token.h"
#include "muster/base/system_identity.h"
#include "muster/base/wait.h"

namespace muster::stores {
namespace {

constexpr std::uint64_t kMostClaimBytes = 4096;

// Where numbers of processes mean the same: one boot of one machine, and one namespace of it.
std::string numbering() { return boot_id() + " " + own_namespace("pid"); }

// When a process began, in ticks since the boot; empty when there is none.
std::string start_of(std::int64_t pid) {
  if (!std::in_range<pid_t>(pid)) return "";
  const auto stat = process_stat(static_cast<pid_t>(pid));
  return stat && !stat->has_ended() ? std::to_string(stat->start_ticks) : "";
}

std::string own_host() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

/// Process that owns a claim, as the claim names it.
struct Owner {
  std::string name = "an unknown process";
  bool is_gone = false;
};

Owner parse_owner(const std::string& bytes) {
  const auto json = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  const auto text = [&](const char* name) {
    const auto field = json.find(name);
    return field != json.end() && field->is_string() ? field->get<std::string>() : std::string();
  };
  const auto number = json.find("pid");
  if (number == json.end() || !number->is_number_integer()) return {};
  const auto pid = number->get<std::int64_t>();
  Owner owner{.name = printable(fmt::format("process {} on {}", pid, text("host")))};
  owner.is_gone = text("numbering") == numbering() && start_of(pid) != text("start");
  return owner;
}

// Whether the error is that of a write whose precondition does not hold.
bool is_refusal(const Error& error) {
  return error.code() == ErrorCode::kAlreadyExists || error.code() == ErrorCode::kAborted;
}

}  // namespace

ClaimOptions ClaimOptions::from_environment() {
  const char* text = std::getenv("MUSTER_CLAIM_LEASE_SECONDS");
  if (text == nullptr) return {};
  char* end = nullptr;
  const long seconds = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || seconds < 1 || seconds > 3600) {
    throw InvalidArgument("MUSTER_CLAIM_LEASE_SECONDS must be a number from 1 to 3600: {}", text);
  }
  return {.lease = std::chrono::seconds(seconds)};
}

ObjectClaim::ObjectClaim(std::shared_ptr<VersionedObjects> api, ObjectName object,
                         std::string shown, const ClaimOptions& options)
    : api_(std::move(api)),
      object_(std::move(object)),
      shown_(std::move(shown)),
      options_(options),
      token_(random_token()) {
  acquire();
  probe();
  renewed_ = Clock::now();
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

ObjectClaim::~ObjectClaim() {
  thread_.request_stop();
  thread_.join();
  if (is_lost_) return;
  try {
    const auto info = api_->head(object_);
    if (info && info->version == version_) api_->remove(object_);
  } catch (const Error& error) {
    log::warning("the claim of {} could not be removed, and ends by itself: {}", shown_,
                 error.what());
  }
}

std::string ObjectClaim::content() {
  const nlohmann::json json{{"host", own_host()},
                            {"pid", ::getpid()},
                            {"start", start_of(::getpid())},
                            {"numbering", numbering()},
                            {"token", token_},
                            {"renewals", renewals_++},
                            {"lease_ms", options_.lease.count()}};
  return json.dump(1) + "\n";
}

// It is looked at first: a store that ignores preconditions would let the claim of another process
// be overwritten.
void ObjectClaim::acquire() {
  if (api_->head(object_) || !take_free()) wait_for_end_of_other();
}

bool ObjectClaim::take_free() {
  try {
    version_ = api_->put(object_, content(), Precondition::absent());
    return true;
  } catch (const AlreadyExists&) {
    return false;
  }
}

void ObjectClaim::wait_for_end_of_other() {
  std::string version;
  Owner owner;
  Clock::time_point since;
  const WaitReason reason = [this] { return "the claim of " + shown_ + " to be given up"; };
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  for (;;) {
    const auto info = api_->head(object_);
    if (!info) return take_over("", "it was given up");
    if (info->version != version) {
      if (!version.empty()) {
        throw FailedPrecondition(
            "{} writes to {}; wait for its end, stop it, or take another folder", owner.name,
            shown_);
      }
      version = info->version;
      owner = parse_owner(api_->get(object_, 0, kMostClaimBytes, "", {}).bytes);
      since = Clock::now();
      if (owner.is_gone) return take_over(version, "its process is gone");
      log::info("{} has claimed {}: looking for {} s whether it is alive", owner.name, shown_,
                options_.lease.count() / 1000);
    }
    if (Clock::now() - since > options_.lease) return take_over(version, "it was not renewed");
    wait_until(never, lock, Deadline::after(options_.lease / 10), reason, [] { return false; });
  }
}

void ObjectClaim::take_over(const std::string& version, const std::string& why) {
  try {
    version_ = put_if(version.empty() ? Precondition::absent() : Precondition::unchanged(version));
  } catch (const Error& error) {
    if (!is_refusal(error)) throw;
    throw_just_claimed();
  }
  log::info("took over the claim of {}: {}", shown_, why);
}

void ObjectClaim::throw_just_claimed() const {
  throw FailedPrecondition(
      "another process has just claimed {}; wait for its end, stop it, or take another folder",
      shown_);
}

// Writes over the own claim whose preconditions do not hold: a store that takes one of them ignores
// preconditions, as several do that speak S3.
void ObjectClaim::probe() {
  const std::string impossible = api_->impossible_version();
  if (impossible.empty()) return;
  for (const Precondition& wrong : {Precondition::absent(), Precondition::unchanged(impossible)}) {
    try {
      version_ = api_->put(object_, content(), wrong);
      ignores_preconditions_ = true;
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
    }
  }
  if (!ignores_preconditions_) return;
  log::warning(
      "the store of {} ignores If-None-Match or If-Match: that no other process writes there is "
      "looked at every {} s, and is not certain; start no second one there, or use a store that "
      "obeys them, as Amazon S3, Google Cloud Storage, MinIO and Ceph do",
      shown_, std::chrono::duration<double>(options_.lease / 3).count());
  settle();
}

// Waits: if two processes began in the same moment, the first to write finds the other's claim.
void ObjectClaim::settle() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  wait_until(
      never, lock, Deadline::after(options_.lease / 10),
      [this] { return "others that claim " + shown_ + " in the same moment"; },
      [] { return false; });
  const auto info = api_->head(object_);
  if (!info || info->version != version_) throw_just_claimed();
}

std::string ObjectClaim::put_if(const Precondition& precondition) {
  if (ignores_preconditions_) {
    const auto info = api_->head(object_);
    const bool holds =
        precondition.must_be_absent ? !info : info && info->version == precondition.version;
    if (!holds) throw_precondition("claiming " + shown_, precondition);
  }
  return api_->put(object_, content(), precondition);
}

void ObjectClaim::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested() && !is_lost_) {
    // Idle is no stall, so no wait is reported here.
    woken_.wait_for(lock, stop, options_.lease / 3, [] { return false; });
    if (stop.stop_requested()) return;
    try {
      renew(lock);
    } catch (const Error& error) {
      log::warning("the claim of {} could not be renewed: {}", shown_, error.what());
    }
  }
}

// The lock is held meanwhile: no thread may write before the outcome is known.
void ObjectClaim::renew(std::unique_lock<std::mutex>&) {
  try {
    version_ = put_if(Precondition::unchanged(version_));
    renewed_ = Clock::now();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kAborted) throw;
    is_lost_ = true;
    log::error("another process has taken over {}: this one can no longer write to it", shown_);
  }
}

void ObjectClaim::check() {
  std::unique_lock lock(mutex_);
  if (!is_lost_ && Clock::now() - renewed_ > options_.lease) renew(lock);
  if (!is_lost_) return;
  throw FailedPrecondition(
      "another process has taken over {}, since this one had not renewed its claim in time; stop "
      "one of the two",
      shown_);
}

}  // namespace muster::stores
