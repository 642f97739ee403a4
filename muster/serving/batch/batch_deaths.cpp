#include "muster/serving/batch/batch_deaths.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostDeathsBytes = std::uint64_t{64} << 20;
/// Deaths that could have come from elsewhere.
constexpr std::uint64_t kDeathsOfAGroup = 3;

/// Process, first instance, number of instances.
using Mark = std::array<std::uint64_t, 3>;

Path mark_path(const Path& output_path, std::uint64_t shard) {
  return batch_shard_path(output_path, shard, "mark");
}
Path deaths_path(const Path& output_path, std::uint64_t shard) {
  return batch_shard_path(output_path, shard, "deaths.json");
}

std::string name_of_signal(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

bool is_fault(int signal) {
  return signal == SIGFPE || signal == SIGSEGV || signal == SIGBUS || signal == SIGILL ||
         signal == SIGABRT || signal == SIGTRAP || signal == SIGSYS;
}

std::optional<InstanceGroup> marked_group(const Path& output_path, std::uint64_t shard,
                                          pid_t process) {
  const Path path = mark_path(output_path, shard);
  if (!file_exists(path)) return std::nullopt;
  const std::string bytes = read_file(path, sizeof(Mark));
  if (bytes.size() != sizeof(Mark)) return std::nullopt;
  Mark mark{};
  std::memcpy(mark.data(), bytes.data(), sizeof mark);
  if (mark[0] != static_cast<std::uint64_t>(process) || mark[2] == 0) return std::nullopt;
  return InstanceGroup{.first = mark[1], .count = mark[2]};
}

void write_deaths(const Path& output_path, std::uint64_t shard,
                  const std::vector<GroupDeaths>& groups) {
  json made = json::array();
  for (const GroupDeaths& group : groups) {
    made.push_back({{"first", group.group.first},
                    {"count", group.group.count},
                    {"deaths", group.deaths},
                    {"signal", group.signal},
                    {"deadly", group.is_deadly}});
  }
  write_file_atomically(deaths_path(output_path, shard), made.dump(1) + "\n");
}

}  // namespace

GroupMark::GroupMark(const Path& output_path, std::uint64_t shard)
    : file_(mark_path(output_path, shard), O_WRONLY | O_CREAT) {}

void GroupMark::begin(const InstanceGroup& group) const { write(group); }

void GroupMark::end() const { write({}); }

void GroupMark::write(const InstanceGroup& group) const {
  const Mark mark{static_cast<std::uint64_t>(::getpid()), group.first, group.count};
  if (::pwrite(file_.get(), mark.data(), sizeof mark, 0) != static_cast<ssize_t>(sizeof mark)) {
    throw_errno(errno, "writing " + file_.path().string());
  }
}

std::vector<GroupDeaths> read_deaths(const Path& output_path, std::uint64_t shard) {
  const Path path = deaths_path(output_path, shard);
  if (!file_exists(path)) return {};
  std::vector<GroupDeaths> groups;
  try {
    for (const json& value : json::parse(read_file(path, kMostDeathsBytes))) {
      groups.push_back({.group = {.first = value.at("first").get<std::uint64_t>(),
                                  .count = value.at("count").get<std::uint64_t>()},
                        .deaths = value.at("deaths").get<std::uint64_t>(),
                        .signal = value.at("signal").get<std::string>(),
                        .is_deadly = value.at("deadly").get<bool>()});
    }
  } catch (const json::exception& error) {
    throw DataLoss("{} is damaged: {}. Remove it, and its instances are tried again", path.string(),
                   error.what());
  }
  return groups;
}

std::optional<GroupDeaths> add_death(const Path& output_path, const BatchJob& job, pid_t process,
                                     int signal) {
  for (std::uint64_t shard = 0; shard < job.shards; ++shard) {
    const auto group = marked_group(output_path, shard, process);
    if (!group) continue;
    auto groups = read_deaths(output_path, shard);
    auto known = std::ranges::find(groups, *group, &GroupDeaths::group);
    if (known == groups.end()) known = groups.insert(known, GroupDeaths{.group = *group});
    ++known->deaths;
    known->signal = name_of_signal(signal);
    known->is_deadly = is_fault(signal) || known->deaths >= kDeathsOfAGroup;
    const GroupDeaths made = *known;
    write_deaths(output_path, shard, groups);
    return made;
  }
  return std::nullopt;
}

}  // namespace muster::serving
