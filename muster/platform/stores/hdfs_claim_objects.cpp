#include "muster/platform/stores/hdfs_claim_objects.h"

#include <fmt/core.h>
#include <unistd.h>

#include <random>

#include "muster/base/error.h"

namespace muster::stores {
namespace {

// Longest time to replace a claim; a process that needs longer by the store's clock was killed.
constexpr std::int64_t kLongestReplaceNs = 60'000'000'000;

// A file keeps its id when it grows, so the length is a part of what it is.
std::string claim_version(const HdfsEntry& entry) {
  return fmt::format("{}:{}", entry.file_id, entry.status.size_bytes);
}

std::string id_of_version(const std::string& version) {
  return version.substr(0, version.rfind(':'));
}

}  // namespace

std::optional<ObjectInfo> HdfsClaimObjects::head(const ObjectName& name) {
  const auto entry = api_->status(name.key);
  if (!entry) return std::nullopt;
  return ObjectInfo{.size_bytes = entry->status.size_bytes,
                    .modified_ns = entry->status.modified_ns,
                    .version = claim_version(*entry)};
}

ObjectRange HdfsClaimObjects::get(const ObjectName& name, std::uint64_t offset,
                                  std::uint64_t length, const std::string&,
                                  const std::stop_token& stop) {
  ObjectRange range{.bytes = api_->read(name.key, offset, length, stop)};
  if (const auto info = head(name)) range.info = *info;
  return range;
}

void HdfsClaimObjects::remove(const ObjectName& name) { api_->remove(name.key, /*all=*/false); }

std::string HdfsClaimObjects::unused_name(const ObjectName& name) {
  std::random_device device;
  return fmt::format("{}{}{}-{:08x}{:08x}", name.key, kOnTheWay, ::getpid(), device(), device());
}

std::string HdfsClaimObjects::put(const ObjectName& name, std::string_view bytes,
                                  const Precondition& precondition) {
  if (is_own(precondition.version)) return touch(name, precondition);
  const std::string made = unused_name(name);
  api_->create(made, bytes);
  const auto entry = api_->status(made);
  try {
    if (!entry) throw NotFound("{} went away", api_->shown(made));
    if (precondition.version.empty()) {
      api_->rename_to_new(made, name.key);
    } else {
      replace(made, name, precondition);
    }
  } catch (const Error& error) {
    // The process that has the folder by now may have removed the file on its way.
    if (error.code() != ErrorCode::kAlreadyExists && error.code() != ErrorCode::kNotFound) throw;
    api_->remove(made, /*all=*/false);
    throw_precondition("claiming " + api_->shown(name.key), precondition);
  }
  const std::lock_guard lock(mutex_);
  own_.insert(entry->file_id);
  return claim_version(*entry);
}

bool HdfsClaimObjects::is_own(const std::string& version) {
  const std::lock_guard lock(mutex_);
  return own_.contains(id_of_version(version));
}

std::string HdfsClaimObjects::touch(const ObjectName& name, const Precondition& precondition) {
  auto entry = api_->status(name.key);
  if (!entry || entry->file_id != id_of_version(precondition.version)) {
    throw_precondition("renewing " + api_->shown(name.key), precondition);
  }
  api_->append(name.key, entry->status.size_bytes, " ");
  ++entry->status.size_bytes;
  return claim_version(*entry);
}

// A claim that is alive is never touched: it would look as if it had been given up.
void HdfsClaimObjects::replace(const std::string& made, const ObjectName& name,
                               const Precondition& precondition) {
  const std::string right = name.key + kOnTheWay + "replacing";
  try {
    api_->rename_to_new(made, right);
  } catch (const AlreadyExists&) {
    const auto ours = api_->status(made);
    const auto theirs = api_->status(right);
    if (ours && theirs &&
        ours->status.modified_ns - theirs->status.modified_ns > kLongestReplaceNs) {
      api_->remove(right, /*all=*/false);
    }
    throw;
  }
  const auto entry = api_->status(name.key);
  if (entry && claim_version(*entry) != precondition.version) {
    api_->remove(right, /*all=*/false);
    throw AlreadyExists("{} has changed", api_->shown(name.key));
  }
  if (entry) api_->remove(name.key, /*all=*/false);
  try {
    api_->rename_to_new(right, name.key);
  } catch (const AlreadyExists&) {
    api_->remove(right, /*all=*/false);
    throw;
  }
}

}  // namespace muster::stores
