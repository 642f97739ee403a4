#include "muster/cli/batch_workspace.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "muster/base/copy_whole_file.h"
#include "muster/base/error.h"
#include "muster/base/fingerprint.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/serving/batch/batch_job.h"

namespace muster::cli {
namespace {

constexpr const char* kJobFile = "job.json";
constexpr const char* kResultsBegin = "prediction.";

// Ours, and closed to others: its name is known to everybody.
void make_private(const Path& folder) {
  if (::mkdir(folder.c_str(), S_IRWXU) == 0) return;
  if (errno != EEXIST) throw_errno(errno, "making the folder " + folder.string());
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) throw_errno(errno, "looking at " + folder.string());
  const bool is_ours = S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() &&
                       (found.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  if (!is_ours) {
    throw PermissionDenied("{} is not a folder that only this user can enter; set TMPDIR to one",
                           folder.string());
  }
}

Path folder_for(const Path& output) {
  if (!is_remote(output)) return output;
  const char* const given = std::getenv("TMPDIR");
  const Path parent = given == nullptr || *given == '\0' ? "/tmp" : given;
  return absolute_path(
      parent / fmt::format("muster-batch-{}-{:016x}", ::geteuid(), fingerprint64(output.native())));
}

bool holds_results(const Path& output) {
  FileSystem& files = file_system_for(output);
  if (!files.status(output)) return false;
  for (const std::string& name : files.list(output)) {
    if (name.starts_with(kResultsBegin)) return true;
  }
  return false;
}

// A job that has ended is known here by its job.json.
void fetch_job(const Path& output, const Path& folder) {
  const Path here = serving::batch_folder(folder);
  if (file_exists(here / kJobFile)) return;
  const Path there = serving::batch_folder(output) / kJobFile;
  if (file_exists(there)) {
    file_system_for(here).create_directories(here);
    copy_whole_file(there, here / kJobFile);
  } else if (holds_results(output)) {
    throw AlreadyExists(
        "{} holds results of an earlier prediction, or of one that another host did not finish. "
        "Choose another --output-path, or remove them",
        output.string());
  }
}

}  // namespace

BatchWorkspace::BatchWorkspace(const std::string& output_path)
    : output_(absolute_path(strip_file_scheme(output_path))), folder_(folder_for(output_)) {
  claim_.emplace(output_);
  if (!is_remote(output_)) return;
  make_private(folder_);
  fetch_job(output_, folder_);
  log::info("working in {}; the results are copied to {} at the end", folder_.string(),
            output_.string());
}

void BatchWorkspace::publish() const {
  if (!is_remote(output_)) return;
  FileSystem& files = file_system_for(folder_);
  FileSystem& store = file_system_for(output_);
  for (const std::string& name : files.list(folder_)) {
    if (name.starts_with(kResultsBegin)) copy_whole_file(folder_ / name, output_ / name);
  }
  const Path ended = serving::batch_folder(output_);
  if (object_store_for(output_) == nullptr) store.create_directories(ended);
  copy_whole_file(serving::batch_folder(folder_) / kJobFile, ended / kJobFile);
  files.remove_all(folder_);
}

}  // namespace muster::cli
