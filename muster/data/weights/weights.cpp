#include "muster/data/weights/weights.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "muster/base/error.h"
#include "muster/base/suggestion.h"
#include "muster/data/checkpoint/bundle_files.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/records/zip_archive.h"
#include "muster/data/weights/bundle_weights.h"
#include "muster/data/weights/npz_weights.h"
#include "muster/data/weights/safetensors.h"
#include "muster/data/weights/sharded_weights_internal.h"
#include "muster/data/weights/torch_file.h"

namespace muster {
namespace {

struct FormatRow {
  WeightFormat format;
  std::string_view name;
  /// Endings of file names.
  std::vector<std::string_view> endings;
};

const std::vector<FormatRow>& format_rows() {
  static const std::vector<FormatRow> rows{
      {WeightFormat::kSafetensors, "safetensors", {".safetensors"}},
      {WeightFormat::kTorch, "torch", {".pt", ".pth", ".bin"}},
      {WeightFormat::kNpz, "npz", {".npz"}},
      {WeightFormat::kBundle, "bundle", {}},
  };
  return rows;
}

/// The usual names of weights in a folder.
constexpr std::string_view kNamesInFolders[] = {"model.safetensors.index.json", "model.safetensors",
                                                "pytorch_model.bin.index.json",
                                                "pytorch_model.bin"};
constexpr std::string_view kZipMagic{"PK\x03\x04", 4};
// An archive without entries begins with its end.
constexpr std::string_view kEmptyZipMagic{"PK\x05\x06", 4};
// Pickles of protocol 2 and more begin with this: files of PyTorch before 1.6 do.
constexpr char kPickleMagic = '\x80';

/// The file that a folder with weights of a published model has.
std::optional<Path> weights_in_folder(const Path& folder) {
  for (const std::string_view name : kNamesInFolders) {
    if (file_exists(folder / name)) return folder / name;
  }
  return std::nullopt;
}

/// Whether the file is an archive, and its first entry, if it has one, an array.
bool is_npz(std::string_view bytes, const Path& path) {
  if (bytes.starts_with(kEmptyZipMagic)) return true;
  if (!bytes.starts_with(kZipMagic)) return false;
  const ZipArchive archive(bytes, path.string());
  return !archive.entries().empty() && archive.entries().front().name.ends_with(".npy");
}

bool is_bundle_file(const Path& path) {
  return path.extension() == ".index" ||
         path.filename().string().find(".data-") != std::string::npos;
}

/// Names in a file of weights are unique, and a reader finds them by name.
void check_names(const Path& path, const std::vector<Weight>& tensors) {
  std::set<std::string_view> names;
  for (const Weight& weight : tensors) {
    if (!names.insert(weight.name).second) {
      throw InvalidArgument("writing {}: tensor '{}' comes twice", path.string(), weight.name);
    }
  }
}

}  // namespace

std::string_view name_of(WeightFormat format) {
  for (const FormatRow& row : format_rows()) {
    if (row.format == format) return row.name;
  }
  throw Internal("no such format of weights: {}", static_cast<int>(format));
}

WeightFormat weight_format_named(std::string_view name) {
  std::vector<std::string> names;
  for (const FormatRow& row : format_rows()) {
    if (row.name == name) return row.format;
    names.emplace_back(row.name);
  }
  throw InvalidArgument("no such format of weights: '{}'; known are {}{}", name,
                        fmt::join(names, ", "), did_you_mean(name, names));
}

const Weight* Weights::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const Weight& weight) { return weight.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> names;
  for (const Weight& weight : tensors) names.push_back(weight.name);
  return names;
}

Weights open_weights_file(const Path& path, const OpenWeightsOptions& options) {
  if (path.extension() == ".json") return open_sharded_weights(path, options);
  auto file = file_system_for(path).map(path);
  const std::string_view bytes = file->bytes();
  if (is_npz(bytes, path)) return parse_npz_weights(std::move(file), path);
  if (bytes.starts_with(kZipMagic) || bytes.starts_with(kPickleMagic)) {
    return parse_torch_file(std::move(file), path, options);
  }
  return parse_safetensors(std::move(file), path, options.limits);
}

Weights open_weights(const Path& path, const OpenWeightsOptions& options) {
  const auto status = file_system_for(path).status(path);
  if (status && status->is_directory) {
    if (const auto file = weights_in_folder(path)) return open_weights_file(*file, options);
  } else if (status && !is_bundle_file(path)) {
    return open_weights_file(path, options);
  }
  return open_bundle_weights(resolve_checkpoint(path));
}

WeightFormat weight_format_of(const Path& path) {
  const std::string name = path.filename().string();
  for (const FormatRow& row : format_rows()) {
    for (const std::string_view ending : row.endings) {
      if (name.ends_with(ending)) return row.format;
    }
  }
  return WeightFormat::kBundle;
}

void write_weights(const Path& path, const std::vector<Weight>& tensors,
                   const WriteWeightsOptions& options) {
  check_names(path, tensors);
  switch (options.format) {
    case WeightFormat::kSafetensors:
      return write_safetensors(path, tensors, options.metadata);
    case WeightFormat::kTorch:
      return write_torch_file(path, tensors);
    case WeightFormat::kNpz:
      return write_npz_weights(path, tensors);
    case WeightFormat::kBundle:
      return write_bundle_weights(path, tensors);
  }
}

}  // namespace muster
