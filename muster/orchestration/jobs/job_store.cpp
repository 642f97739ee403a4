#include "muster/orchestration/jobs/job_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/base/file_lock.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/base/open_file.h"
#include "muster/base/suggestion.h"
#include "muster/base/unpublished_folder.h"
#include "muster/base/wait.h"
#include "muster/orchestration/jobs/job_text.h"
#include "muster/orchestration/jobs/kept_program_internal.h"
#include "muster/orchestration/process/process_tree.h"

namespace muster::jobs {
namespace {

constexpr std::uint64_t kMostJobBytes = std::uint64_t{16} << 20;
constexpr const char* kJobVariable = "MUSTER_JOB";
constexpr const char* kProgramFolder = "program";
constexpr std::string_view kTemporary = ".submit-";
constexpr std::chrono::hours kLeftoverAge{1};
constexpr std::chrono::milliseconds kLookPatience{500};
constexpr std::chrono::milliseconds kLookNap{5};

// Arguments and environment are their owner's alone.
void make_private_folder(const Path& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0) {
    throw_errno(errno, fmt::format("making the folder {}", folder.string()));
  }
}

Path job_file(const Path& folder) { return folder / "job.json"; }

// Refuses the name of a job that still runs although its folder was deleted.
void check_nothing_runs(const JobStore& store, const std::string& name) {
  const auto left = process::processes_with(job_entry(store, name));
  if (left.empty()) return;
  throw FailedPrecondition(
      "process {} of an earlier job {}, whose folder was deleted, still runs; wait for its end, "
      "end "
      "it, or choose another name",
      left.front(), name);
}

Job read_job(const Path& folder) {
  const Path file = job_file(folder);
  try {
    return job_from_json(
        read_file_inside(folder.parent_path(), folder.filename() / file.filename(), kMostJobBytes));
  } catch (Error& error) {
    if (error.code() == ErrorCode::kDataLoss) {
      error.add_context(fmt::format("reading {}", file.string()));
    }
    throw;
  }
}

}  // namespace

Path JobStore::default_folder() {
  const auto variable = [](const char* name) -> std::string {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const auto own = variable("MUSTER_JOBS_DIR"); !own.empty()) return own;
  if (const auto state = variable("XDG_STATE_HOME"); !state.empty()) {
    return Path(state) / "muster" / "jobs";
  }
  const auto home = variable("HOME");
  if (home.empty()) {
    throw InvalidArgument("HOME is not set: name the folder of the jobs with --jobs-dir");
  }
  return Path(home) / ".local" / "state" / "muster" / "jobs";
}

JobStore::JobStore(const Path& folder, std::vector<std::string> supervise_command)
    : folder_(absolute_path(folder)), supervise_command_(std::move(supervise_command)) {
  if (is_remote(folder_)) {
    throw InvalidArgument(
        "the queue of jobs needs a folder on a disk of this host, whose files it locks: {}. Name "
        "one with --jobs-dir or MUSTER_JOBS_DIR; the --job-dir of a job may lie in a store",
        folder_.string());
  }
}

void JobStore::keep_program(Job& job) const {
  std::string& program = job.local.command.at(0);
  job.local.program_from = program;
  program = (folder_of(job.job_id) / kProgramFolder / Path(program).filename()).string();
}

void JobStore::create(const Job& job, const std::vector<std::string>& environment) const {
  check_job_name(job.job_id);
  FileSystem& files = file_system_for(folder_);
  files.create_directories(folder_);
  const Path final_folder = folder_of(job.job_id);
  const auto refuse = [&] {
    throw AlreadyExists(
        "there is a job {} already in {}; choose another name, or delete that one with `muster "
        "jobs delete {}`",
        job.job_id, folder_.string(), job.job_id);
  };
  if (files.status(final_folder)) refuse();
  check_nothing_runs(*this, job.job_id);
  const Path made =
      folder_ / fmt::format("{}{}-{}", kTemporary, job.job_id, static_cast<long>(::getpid()));
  make_private_folder(made);
  UnpublishedFolder temporary(made);
  const auto write = [&](const char* name, const std::string& bytes) {
    const auto file = files.create(temporary.path() / name);
    file->write(bytes);
    file->sync();
    file->close();
  };
  write("job.json", to_json(job));
  // As the kernel shows it of a process: values may hold any byte but zero.
  std::string variables;
  for (const std::string& entry : environment) variables.append(entry).push_back('\0');
  write("environment", variables);
  if (!job.local.program_from.empty()) {
    const Path folder = temporary.path() / kProgramFolder;
    make_private_folder(folder);
    copy_program(job.local.program_from, folder / job.local.program_from.filename());
    files.sync_directory(folder);
  }
  files.sync_directory(temporary.path());
  // A folder that is not empty is never replaced: of two submits of one name, one wins.
  if (::rename(temporary.path().c_str(), final_folder.c_str()) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) refuse();
    throw_errno(errno, fmt::format("publishing {}", final_folder.string()));
  }
  temporary.published();
  files.sync_directory(folder_);
}

Job JobStore::read(const std::string& name) const {
  check_job_name(name);
  if (!file_exists(job_file(folder_of(name)))) {
    throw NotFound("there is no job {} in {}{}", name, folder_.string(),
                   did_you_mean(name, names()));
  }
  return read_job(folder_of(name));
}

std::vector<std::string> JobStore::environment_of(const std::string& name) const {
  const std::string bytes = read_file(folder_of(name) / "environment", kMostJobBytes);
  std::vector<std::string> variables;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const auto end = std::min(bytes.find('\0', begin), bytes.size());
    variables.push_back(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  return variables;
}

std::vector<std::string> JobStore::names() const {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(folder_.c_str()), &::closedir);
  if (folder == nullptr) {
    if (errno == ENOENT) return names;
    throw_errno(errno, fmt::format("reading the folder {}", folder_.string()));
  }
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name.front() == '.' || entry->d_type == DT_REG) continue;
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<Job> JobStore::list() const {
  std::vector<Job> jobs;
  for (const std::string& name : names()) {
    try {
      jobs.push_back(read_job(folder_of(name)));
    } catch (const NotFound&) {
      continue;  // Deleted meanwhile, or a folder of something else.
    } catch (const Error& error) {
      log::error("skipping the job {}: {}", name, error.what());
    }
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const Job& a, const Job& b) { return a.create_time > b.create_time; });
  return jobs;
}

Job JobStore::change(const std::string& name, const std::function<void(Job&)>& change) const {
  const Path folder = folder_of(name);
  check_job_name(name);
  if (!file_exists(job_file(folder))) return read(name);  // Throws.
  const OpenFile lock(folder, O_RDONLY | O_DIRECTORY);
  lock_file(lock.get(), LOCK_EX, folder);
  Job job = read_job(folder);
  const Job before = job;
  change(job);
  if (job != before) write_file_atomically(job_file(folder), to_json(job));
  return job;
}

void JobStore::remove(const std::string& name) const {
  const Job job = read(name);
  if (!is_final(job.state)) {
    throw FailedPrecondition(
        "the job {} is {}; cancel it with `muster jobs cancel {}` and wait for its end", name,
        name_of(job.state), name);
  }
  // A concurrent reader sees the whole job or none.
  const Path gone =
      folder_ / fmt::format("{}{}-{}-deleted", kTemporary, name, static_cast<long>(::getpid()));
  file_system_for(folder_).rename(folder_of(name), gone);
  file_system_for(folder_).remove_all(gone);
}

void JobStore::remove_leftovers() const {
  FileSystem& files = file_system_for(folder_);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  for (const std::string& name : files.list(folder_)) {
    if (!name.starts_with(kTemporary)) continue;
    const auto status = files.status(folder_ / name);
    if (status && now - std::chrono::nanoseconds(status->modified_ns) > kLeftoverAge) {
      files.remove_all(folder_ / name);
    }
  }
}

std::optional<HeldLock> HeldLock::take(const Path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) throw_errno(errno, fmt::format("opening {}", file.string()));
  HeldLock lock(descriptor);
  const Deadline deadline = Deadline::after(kLookPatience);
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) throw_errno(errno, fmt::format("locking {}", file.string()));
    if (deadline.expired()) return std::nullopt;
    std::this_thread::sleep_for(kLookNap);
  }
  return lock;
}

bool HeldLock::is_held(const Path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == ENOENT) return false;
    throw_errno(errno, fmt::format("opening {}", file.string()));
  }
  const HeldLock closes(descriptor);
  // A shared one, so that two that look do not take each other for a holder.
  if (::flock(descriptor, LOCK_SH | LOCK_NB) == 0) return false;
  if (errno == EWOULDBLOCK) return true;
  throw_errno(errno, fmt::format("locking {}", file.string()));
}

HeldLock::~HeldLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool HeldLock::is_of(const Path& file) const {
  struct stat held {};
  struct stat there {};
  return ::fstat(descriptor_, &held) == 0 && ::stat(file.c_str(), &there) == 0 &&
         held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

std::string job_entry(const JobStore& store, const std::string& name) {
  return fmt::format("{}={}", kJobVariable, store.folder_of(name).string());
}

Path run_lock_of(const JobStore& store, const std::string& name) {
  return store.folder_of(name) / "run.lock";
}

}  // namespace muster::jobs
