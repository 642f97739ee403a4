#include "muster/data/records/npz.h"

#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/records/zip_archive.h"

namespace muster {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;

}  // namespace

NpyArray read_npz(const Path& path, std::string_view name, const DecompressionLimits& limits) {
  return parse_npz(read_file(path, kMostBytes), path.string(), name, limits);
}

NpyArray parse_npz(std::string_view bytes, std::string_view file, std::string_view name,
                   const DecompressionLimits& limits) {
  constexpr std::string_view kSuffix = ".npy";
  const ZipArchive archive(bytes, file);
  std::vector<std::string> names;
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : archive.entries()) {
    if (!entry.name.ends_with(kSuffix)) continue;
    names.push_back(entry.name.substr(0, entry.name.size() - kSuffix.size()));
    if (name.empty() || names.back() == name) found = &entry;
  }
  if (name.empty() && names.size() > 1) {
    throw InvalidArgument("{} holds more than one array; name one of {}", file,
                          fmt::join(names, ", "));
  }
  if (found == nullptr) {
    throw NotFound("{} holds no array '{}'; it has: {}", file, name, fmt::join(names, ", "));
  }
  return read_npy(*archive.open(*found, limits), fmt::format("{}[{}]", file, found->name));
}

}  // namespace muster
