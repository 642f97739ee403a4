// `muster new`: a project that builds, trains, tests and serves as it stands, from a template.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/suggestion.h"
#include "muster/base/unpublished_folder.h"
#include "muster/cli/command.h"

namespace muster::cli {
namespace {

constexpr const char* kAboutFile = "template.json";
// Folder of files that all templates of muster have in common, under those of each.
constexpr const char* kCommon = "common";
constexpr std::uint64_t kMostFileBytes = 1 << 20;
constexpr std::size_t kMostNameBytes = 64;

struct NewFlags {
  std::string name{};
  std::string template_name = "blank";
  std::string folder = ".";
  bool list = false;
  bool dry_run = false;
};

struct TemplateFile {
  Path from{};
  std::string bytes{};
};

/// A template as it lies on the disk.
struct Template {
  std::string summary{};
  /// For @NAME@ in its files, beside those that every project has.
  std::map<std::string, std::string> values{};
  /// By their paths in the project.
  std::map<std::string, TemplateFile> files{};
};

Path templates_folder() {
  const Path program = std::filesystem::read_symlink("/proc/self/exe");
  return (program.parent_path() / "../share/muster/templates").lexically_normal();
}

std::vector<std::string> template_names() {
  const Path folder = templates_folder();
  std::vector<std::string> names;
  for (const std::string& name : file_system_for(folder).list(folder)) {
    if (file_exists(folder / name / kAboutFile)) names.push_back(name);
  }
  return names;
}

void read_about(const Path& file, Template& out) {
  try {
    const auto about = nlohmann::json::parse(read_file(file, kMostFileBytes));
    out.summary = about.at("summary").get<std::string>();
    if (about.contains("values")) about.at("values").get_to(out.values);
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument("{}: {}", file.string(), error.what());
  }
}

void read_files(const Path& folder, Template& out) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    const std::string name = entry.path().lexically_relative(folder).string();
    if (name == kAboutFile) continue;
    if (!entry.is_regular_file()) {
      throw InvalidArgument("{} is no plain file, as all of a template must be",
                            entry.path().string());
    }
    out.files[name] = {.from = entry.path(), .bytes = read_file(entry.path(), kMostFileBytes)};
  }
}

// One of muster's by its name, or a folder of your own.
Template read_template(const std::string& name) {
  Template found;
  const bool is_word = name.find('/') == std::string::npos && name != "." && name != "..";
  const Path ours = templates_folder() / name;
  if (is_word && file_exists(ours / kAboutFile)) {
    read_about(ours / kAboutFile, found);
    read_files(templates_folder() / kCommon, found);
    read_files(ours, found);
    return found;
  }
  if (!file_exists(Path(name) / kAboutFile)) {
    throw NotFound("--template: there is no template {}{}, and no folder {} with {} in it", name,
                   did_you_mean(name, template_names()), name, kAboutFile);
  }
  read_about(Path(name) / kAboutFile, found);
  read_files(name, found);
  return found;
}

// Names become those of folders, targets of CMake and identifiers of C++.
void check_project_name(const std::string& name) {
  constexpr const char* kTaken[] = {
      "alignas", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "concept",
      "const", "continue", "default", "delete", "do", "double", "else", "enum", "explicit",
      "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long",
      "mutable", "namespace", "new", "not", "operator", "or", "private", "protected", "public",
      "register", "requires", "return", "short", "signed", "sizeof", "static", "struct", "switch",
      "template", "this", "throw", "true", "try", "typedef", "typename", "union", "unsigned",
      "using", "virtual", "void", "volatile", "while", "xor",
      // Targets that CMake and muster have already.
      "test", "all", "clean", "help", "install", "package", "preinstall", "edit_cache",
      "rebuild_cache", "muster", "train_test",
      // Targets of the libraries.
      "torch", "torch_cpu", "torch_cuda", "torch_library", "c10", "c10_cuda", "yaml-cpp"};
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > kMostNameBytes || name.front() < 'a' || name.front() > 'z' ||
      !std::ranges::all_of(name, fits)) {
    throw UsageError(
        "\"{}\" cannot be the name of a project: it must be small letters, digits, '_' and '-', "
        "begin with a letter and have at most {} characters",
        name, kMostNameBytes);
  }
  if (std::ranges::find(kTaken, name) != std::end(kTaken)) {
    throw UsageError("\"{}\" cannot be the name of a project: C++ or CMake has it already", name);
  }
}

// The text with the values instead of @KEY@; what has no value stays.
std::string rendered(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string out;
  while (!text.empty()) {
    const auto at = text.find('@');
    out += text.substr(0, at);
    if (at == text.npos) break;
    text.remove_prefix(at + 1);
    const auto end = text.find('@');
    const auto value =
        end == text.npos ? values.end() : values.find(std::string(text.substr(0, end)));
    if (value == values.end()) {
      out += '@';
      continue;
    }
    out += value->second;
    text.remove_prefix(end + 1);
  }
  return out;
}

std::map<std::string, std::string> values_of(const NewFlags& flags, const Template& from) {
  std::map<std::string, std::string> values = from.values;
  std::string target = flags.name;
  std::ranges::replace(target, '-', '_');
  values["NAME"] = flags.name;
  values["TARGET"] = target;
  // As find_package() takes it: numbers alone, without "-rc1".
  constexpr std::string_view kVersion = MUSTER_VERSION;
  values["MUSTER_VERSION"] = kVersion.substr(0, kVersion.find('-'));
  return values;
}

void write_project(const Template& from, const std::map<std::string, std::string>& values,
                   const Path& project) {
  const Path parent = project.parent_path();
  file_system_for(parent).create_directories(parent);
  const Path temporary =
      parent / fmt::format(".{}.temp-{}", project.filename().string(), ::getpid());
  file_system_for(parent).create_directories(temporary);
  UnpublishedFolder folder(temporary);
  for (const auto& [name, file] : from.files) {
    const Path to = temporary / name;
    file_system_for(to).create_directories(to.parent_path());
    write_file_atomically(to, rendered(file.bytes, values), /*durable=*/false);
    // Scripts stay what they are; nothing else of the template's modes is of interest.
    const auto execute = std::filesystem::perms::owner_exec;
    if ((std::filesystem::status(file.from).permissions() & execute) == execute) {
      std::filesystem::permissions(to, std::filesystem::perms(0755));
    }
  }
  publish_directory(temporary, project);
  folder.published();
}

void print_templates() {
  for (const std::string& name : template_names()) {
    Template about;
    read_about(templates_folder() / name / kAboutFile, about);
    fmt::print("{:<10} {}\n", name, about.summary);
  }
}

void make_project(const NewFlags& flags) {
  check_project_name(flags.name);
  const Template from = read_template(flags.template_name);
  const Path project = (Path(flags.folder) / flags.name).lexically_normal();
  if (file_exists(project)) {
    throw AlreadyExists("{} is there already, and nothing in it was touched; choose another name",
                        project.string());
  }
  const auto values = values_of(flags, from);
  if (flags.dry_run) {
    for (const auto& [name, file] : from.files) {
      fmt::print("{:>6} bytes  {}\n", rendered(file.bytes, values).size(),
                 (project / name).string());
    }
    return;
  }
  write_project(from, values, std::filesystem::absolute(project));
  fmt::print(
      "Made {}: {} files. Two commands build, test and train it:\n"
      "  cd {} && cmake --preset dev && cmake --build --preset dev && ctest --preset dev\n"
      "  scripts/make_records && scripts/train_local_cpu\n",
      project.string(), from.files.size(), project.string());
}

}  // namespace

void add_new(CLI::App& command) {
  const auto flags = std::make_shared<NewFlags>();
  command.add_option("name", flags->name, "Lower-case letters, digits, '_' and '-'");
  command
      .add_option("--template", flags->template_name,
                  "One of --list, or a folder with a template of your own")
      ->capture_default_str();
  command.add_option("--in", flags->folder, "Where the project's folder is created")
      ->capture_default_str();
  command.add_flag("--list", flags->list, "Print the templates and exit");
  command.add_flag("--dry-run", flags->dry_run, "Print the files and exit");
  command.callback([flags] {
    if (flags->list) return print_templates();
    if (flags->name.empty()) throw UsageError("give a name: muster new NAME");
    make_project(*flags);
  });
}

}  // namespace muster::cli
