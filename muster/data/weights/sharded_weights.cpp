#include <fmt/core.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/weights/json_scanner_internal.h"
#include "muster/data/weights/sharded_weights_internal.h"

namespace muster {
namespace {

/// Which file holds a tensor, as an index tells.
std::map<std::string, std::string> read_weight_map(const Path& index, const WeightLimits& limits) {
  const std::string text = read_file(index, limits.header_bytes);
  JsonScanner scanner(text, 0, index.string(), "index");
  std::map<std::string, std::string> files;
  bool has_map = false;
  scanner.object([&](const std::string& key) {
    if (key != "weight_map" || std::exchange(has_map, true)) return scanner.skip_value();
    scanner.object([&](std::string name) {
      std::string file = scanner.string();
      if (file.empty() || file == "." || file == ".." || file.find('/') != file.npos) {
        scanner.fail(fmt::format("'{}' is no name of a file beside the index", file));
      }
      // It could be this one, and would be opened without end.
      if (file.ends_with(".json")) {
        scanner.fail(fmt::format("'{}' is an index, and no file of weights", file));
      }
      if (!files.emplace(std::move(name), std::move(file)).second) {
        scanner.fail("a tensor that comes twice");
      }
    });
  });
  scanner.expect_end();
  if (!has_map) throw DataLoss("{}: it has no weight_map", index.string());
  return files;
}

}  // namespace

Weights open_sharded_weights(const Path& index, const OpenWeightsOptions& options) {
  std::map<std::string, std::vector<std::string>> names_by_file;
  for (auto& [name, file] : read_weight_map(index, options.limits)) {
    names_by_file[file].push_back(name);
  }
  Weights all{.path = index};
  for (const auto& [file, names] : names_by_file) {
    const Path path = index.parent_path() / file;
    Weights shard = open_weights_file(path, options);
    std::map<std::string_view, const Weight*> by_name;
    for (const Weight& weight : shard.tensors) by_name.emplace(weight.name, &weight);
    for (const std::string& name : names) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) {
        throw DataLoss("{}: tensor '{}' is not in {}", index.string(), name, path.string());
      }
      all.tensors.push_back(*found->second);
    }
    all.format = shard.format;
    all.metadata.merge(shard.metadata);
  }
  return all;
}

}  // namespace muster
