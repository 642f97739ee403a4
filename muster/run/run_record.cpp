#include <unistd.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <set>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/program.h"
#include "muster/run/run_record_internal.h"
#include "muster/train/engine/arithmetic.h"

namespace muster::internal {
namespace {

constexpr std::size_t kMostFiles = 1000;
constexpr std::size_t kMostWordBytes = 1 << 16;

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::vector<std::string> parts_of(std::string_view word) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view list) {
    for (std::size_t begin = 0; begin <= list.size();) {
      const auto comma = std::min(list.find(',', begin), list.size());
      if (comma > begin) parts.emplace_back(list.substr(begin, comma - begin));
      begin = comma + 1;
    }
  };
  add(word);
  if (const auto equals = word.find('='); equals != word.npos) add(word.substr(equals + 1));
  return parts;
}

// Where a scheme is in the way, looking would be a request to a server.
bool may_be_local(const std::string& part) {
  return part.size() < kMostWordBytes && part.find("://") == part.npos && !part.starts_with("--");
}

}  // namespace

std::vector<RunRecord::File> files_named_by(const std::vector<std::string>& arguments) {
  std::vector<RunRecord::File> files;
  std::set<Path> seen;
  for (const std::string& word : arguments) {
    for (const std::string& part : parts_of(word)) {
      if (!may_be_local(part)) continue;
      for (const Path& path : glob(part)) {
        const auto status = file_system_for(path).status(path);
        if (!status || status->is_directory || files.size() >= kMostFiles) continue;
        if (!seen.insert(path).second) continue;
        files.push_back({.path = std::filesystem::absolute(path).string(),
                         .size_bytes = status->size_bytes,
                         .modified_ns = status->modified_ns});
      }
    }
  }
  return files;
}

RunRecord record_of_this_process(const RunConfig& config) {
  RunRecord record;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  record.began_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  const Path program = std::filesystem::read_symlink("/proc/self/exe");
  record.program = program.string();
  record.arguments = command_line();
  if (!record.arguments.empty()) record.arguments.erase(record.arguments.begin());
  record.working_directory = std::filesystem::current_path().string();
  record.host = host_name();
  record.git = git_state_of(program.parent_path());
  record.seed = config.seed();
  const Arithmetic numbers = numerics_fingerprint(config.reproducibility.own_cpu_kernels);
  record.versions = {{"muster", MUSTER_VERSION},
                     {"libtorch", numbers.libtorch},
                     {"BLAS", numbers.blas},
                     {"CPU capability", numbers.cpu_capability}};
  record.hparams = config.hparams;
  record.files = files_named_by(record.arguments);
  return record;
}

void try_to_record(const Path& model_dir, const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception&) {
    log::warning("{} gets no record of this run: {}", model_dir.string(),
                 describe(std::current_exception()).message);
  }
}

}  // namespace muster::internal
