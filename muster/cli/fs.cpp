// muster fs: files of this machine and of remote stores, by the same commands.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/copy_whole_file.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/local_time.h"
#include "muster/base/object_store.h"
#include "muster/base/path_below.h"
#include "muster/base/printable.h"
#include "muster/cli/command.h"
#include "muster/cli/progress.h"

namespace muster::cli {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{4} << 20;

struct FsOptions {
  std::vector<std::string> paths;
  std::string target;
  bool is_long = false;
  bool recursive = false;
  bool as_json = false;
  bool resume = false;
  int parallel = 8;
};

/// One file of a tree, and where it lies below its root.
struct TreeFile {
  Path path{};
  std::string below{};
  FileStatus status{};
};

FileStatus status_or_throw(const Path& path) {
  const auto status = file_system_for(path).status(path);
  if (!status) throw NotFound("{}: no such file or folder", path.string());
  return *status;
}

std::vector<Path> expand(const std::vector<std::string>& patterns) {
  std::vector<Path> all;
  for (const std::string& pattern : patterns) {
    const auto found = glob(pattern);
    if (found.empty()) throw NotFound("{}: no such file or folder", pattern);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

// The name of a path that may end in '/'.
std::string name_of(const Path& path) {
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Where a source goes that is put into a folder; what is in "." goes there itself, as cp has it.
Path place_in(const Path& folder, const Path& source) {
  const std::string name = name_of(source);
  return name == "." ? folder : path_below(folder, name);
}

// Collects the files below `root` in its folder `below`. A tree that is deeper than names may be
// long is refused.
void collect(const Path& root, const std::string& below, std::vector<TreeFile>& files) {
  const Path path = below.empty() ? root : path_below(root, below);
  FileSystem& system = file_system_for(path);
  for (const std::string& name : system.list(path)) {
    const Path inner = path_below(path, name);
    const auto status = system.status(inner);
    if (!status) continue;  // Gone meanwhile.
    const std::string place = below.empty() ? name : below + "/" + name;
    if (status->is_directory) {
      collect(root, place, files);
    } else {
      files.push_back({inner, place, *status});
    }
  }
}

// The files of a folder, or the file itself with nothing below.
std::vector<TreeFile> files_of(const Path& path) {
  const FileStatus status = status_or_throw(path);
  if (!status.is_directory) return {{path, "", status}};
  std::vector<TreeFile> files;
  collect(path, "", files);
  return files;
}

std::string time_of(const FileStatus& status) {
  if (status.modified_ns == 0) return "-";
  return local_time(std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(status.modified_ns))));
}

// Names need not be UTF-8, which JSON is.
void print_json_row(const nlohmann::json& row) {
  fmt::print("{}\n", row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

nlohmann::json to_json_row(const Path& path, const FileStatus& status) {
  return {{"path", path.string()},
          {"bytes", status.size_bytes},
          {"modified_ns", status.modified_ns},
          {"directory", status.is_directory}};
}

void print_row(const std::string& name, const FileStatus& status) {
  fmt::print("{:>14}  {:<19}  {}{}\n",
             status.is_directory ? "-" : std::to_string(status.size_bytes),
             status.is_directory ? "-" : time_of(status), printable_line(name),
             status.is_directory ? "/" : "");
}

void run_ls(const FsOptions& options) {
  for (const Path& path : expand(options.paths)) {
    const FileStatus status = status_or_throw(path);
    std::vector<std::pair<std::string, Path>> rows;
    if (status.is_directory) {
      for (const auto& name : file_system_for(path).list(path))
        rows.emplace_back(name, path / name);
    } else {
      rows.emplace_back(path.string(), path);
    }
    for (const auto& row : rows) {
      if (!options.is_long && !options.as_json) {
        fmt::print("{}\n", printable_line(row.first));
        continue;
      }
      const auto found = file_system_for(row.second).status(row.second);
      if (!found) continue;
      if (options.as_json) {
        print_json_row(to_json_row(row.second, *found));
      } else {
        print_row(row.first, *found);
      }
    }
  }
}

void run_stat(const FsOptions& options) {
  for (const Path& path : expand(options.paths)) {
    const FileStatus status = status_or_throw(path);
    if (options.as_json) {
      print_json_row(to_json_row(path, status));
    } else {
      print_row(path.string(), status);
    }
  }
}

void run_cat(const FsOptions& options) {
  std::string piece(kCopyBytes, '\0');
  for (const Path& path : expand(options.paths)) {
    const auto file = file_system_for(path).open(path);
    while (const std::size_t count = file->read(piece)) {
      if (std::fwrite(piece.data(), 1, count, stdout) != count) {
        throw Unavailable("standard output takes no more of {}", path.string());
      }
    }
  }
  if (std::fflush(stdout) != 0) throw Unavailable("standard output takes no more");
}

void run_du(const FsOptions& options) {
  for (const Path& path : expand(options.paths)) {
    std::uint64_t bytes = 0;
    const auto files = files_of(path);
    for (const TreeFile& file : files) bytes += file.status.size_bytes;
    if (options.as_json) {
      print_json_row({{"path", path.string()}, {"bytes", bytes}, {"files", files.size()}});
    } else {
      fmt::print("{:>14}  {:>8} files  {}\n", bytes, files.size(), printable_line(path.string()));
    }
  }
}

/// One file to copy.
struct Copy {
  TreeFile from{};
  Path to{};
};

void copy_one(const Copy& copy, const std::function<void(std::uint64_t)>& copied) {
  if (object_store_for(copy.to) == nullptr) {
    const Path folder = copy.to.parent_path();
    if (!folder.empty()) file_system_for(copy.to).create_directories(folder);
  }
  copy_whole_file(copy.from.path, copy.to, copied);
}

// Whether an earlier copy has finished the file.
bool is_there(const Copy& copy) {
  const auto found = file_system_for(copy.to).status(copy.to);
  return found && !found->is_directory && found->size_bytes == copy.from.status.size_bytes &&
         found->modified_ns >= copy.from.status.modified_ns;
}

void copy_all(const std::vector<Copy>& copies, const FsOptions& options) {
  std::uint64_t total = 0;
  for (const Copy& copy : copies) total += copy.from.status.size_bytes;
  Progress progress("copying", total, "B");
  std::uint64_t done = 0;
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> skipped{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto copied = [&](std::uint64_t bytes) {
    const std::lock_guard lock(mutex);
    done += bytes;
    progress.update(done);
  };
  const auto work = [&] {
    for (std::size_t i = next++; i < copies.size(); i = next++) {
      {
        const std::lock_guard lock(mutex);
        if (failure) return;
      }
      try {
        if (options.resume && is_there(copies[i])) {
          ++skipped;
          copied(copies[i].from.status.size_bytes);
        } else {
          copy_one(copies[i], copied);
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto most =
        std::min<std::size_t>(static_cast<std::size_t>(options.parallel), copies.size());
    for (std::size_t i = 0; i < most; ++i) threads.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
  progress.clear();
  fmt::print("{} files, {} bytes, {} were there already\n", copies.size(), total, skipped.load());
}

bool is_folder(const Path& path) {
  const auto status = file_system_for(path).status(path);
  return status && status->is_directory;
}

// The last path is where the others go.
FsOptions with_target(FsOptions options) {
  options.target = options.paths.back();
  options.paths.pop_back();
  return options;
}

std::vector<Copy> copies_of(const std::vector<Path>& sources, const FsOptions& options) {
  const Path target = options.target;
  const bool into = options.target.ends_with('/') || is_folder(target);
  if (sources.size() > 1 && !into) {
    throw UsageError("{} is no folder, and several files cannot become one", target.string());
  }
  std::vector<Copy> copies;
  for (const Path& source : sources) {
    const bool folder = is_folder(source);
    if (folder && !options.recursive) {
      throw UsageError("{} is a folder: give --recursive to copy what is in it", source.string());
    }
    const Path root = into ? place_in(target, source) : target;
    for (TreeFile& file : files_of(source)) {
      const Path to = file.below.empty() ? root : path_below(root, file.below);
      if (absolute_path(to) == absolute_path(file.path)) {
        throw UsageError("{} cannot be copied to itself", file.path.string());
      }
      copies.push_back({std::move(file), to});
    }
  }
  return copies;
}

void run_cp(const FsOptions& options) {
  copy_all(copies_of(expand(options.paths), options), options);
}

void run_mv(const FsOptions& options) {
  const std::vector<Path> sources = expand(options.paths);
  FileSystem& there = file_system_for(options.target);
  const bool into = options.target.ends_with('/') || is_folder(options.target);
  for (const Path& source : sources) {
    if (sources.size() > 1 && !into) {
      throw UsageError("{} is no folder, and several files cannot become one", options.target);
    }
    const Path to = into ? place_in(options.target, source) : Path(options.target);
    FileSystem& here = file_system_for(source);
    const bool in_one_step =
        &here == &there && (object_store_for(source) == nullptr || !is_folder(source));
    if (in_one_step) {
      here.rename(source, to);
      continue;
    }
    FsOptions all = options;
    all.recursive = true;
    copy_all(copies_of({source}, all), all);
    here.remove_all(source);
  }
}

void run_rm(const FsOptions& options) {
  for (const Path& path : expand(options.paths)) {
    if (is_folder(path) && !options.recursive) {
      throw UsageError("{} is a folder: give --recursive to remove it with all that is in it",
                       path.string());
    }
    file_system_for(path).remove_all(path);
  }
}

void add_paths(CLI::App& command, FsOptions& options) {
  command
      .add_option("PATH", options.paths,
                  "Files, folders or globs, of this machine or of a store: s3://bucket/key")
      ->required();
}

void add_copy_flags(CLI::App& command, FsOptions& options) {
  command
      .add_option("PATH", options.paths,
                  "Files, folders or globs, of this machine or of a store (s3://bucket/key), and "
                  "last the new name, or a folder to put them into")
      ->required()
      ->expected(2, CLI::detail::expected_max_vector_size);
  command.add_option("--parallel", options.parallel, "Files copied at one time")
      ->check(CLI::Range(1, 64));
  command.add_flag("--resume", options.resume,
                   "Skip files that exist with the same size and are not older");
}

using RunFs = void (*)(const FsOptions&);

template <RunFs kRun>
void add_listing(CLI::App& command) {
  const auto options = std::make_shared<FsOptions>();
  add_paths(command, *options);
  add_json_flag(command, options->as_json, "One JSON object per line");
  if (kRun == run_ls) command.add_flag("-l,--long", options->is_long, "Show sizes and times too");
  command.callback([options] { kRun(*options); });
}

void add_cat(CLI::App& command) {
  const auto options = std::make_shared<FsOptions>();
  add_paths(command, *options);
  command.callback([options] { run_cat(*options); });
}

void add_cp(CLI::App& command) {
  const auto options = std::make_shared<FsOptions>();
  add_copy_flags(command, *options);
  command.add_flag("-r,--recursive", options->recursive, "Copy folders with their contents");
  command.callback([options] { run_cp(with_target(*options)); });
}

void add_mv(CLI::App& command) {
  const auto options = std::make_shared<FsOptions>();
  add_copy_flags(command, *options);
  command.callback([options] { run_mv(with_target(*options)); });
}

void add_rm(CLI::App& command) {
  const auto options = std::make_shared<FsOptions>();
  add_paths(command, *options);
  command.add_flag("-r,--recursive", options->recursive, "Remove folders with their contents");
  command.callback([options] { run_rm(*options); });
}

constexpr Command kFsCommands[] = {
    {"ls", "list folders", add_listing<run_ls>},
    {"stat", "show sizes and times", add_listing<run_stat>},
    {"du", "print the total size of folders", add_listing<run_du>},
    {"cat", "print files", add_cat},
    {"cp", "copy files and folders", add_cp},
    {"mv", "move files and folders", add_mv},
    {"rm", "remove files and folders", add_rm},
};

}  // namespace

void add_fs(CLI::App& command) { add_commands(command, kFsCommands); }

}  // namespace muster::cli
