#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "muster/cli/records.h"
#include "muster/data/records/record_index.h"
#include "muster/data/records/sharded_files.h"

namespace muster::cli {
namespace {

struct RecordsIndexOptions {
  std::vector<std::string> files;
  bool force = false;
};

void run(const RecordsIndexOptions& options) {
  for (const auto& file : expand_files(options.files)) {
    const auto present = options.force ? std::nullopt : RecordIndex::load_if_valid(file);
    if (!present) RecordIndex::build(file).write(file);
    const std::uint64_t count = present ? present->count() : RecordIndex::load(file).count();
    fmt::print("{}: {} records{}\n", RecordIndex::path_for(file).string(), count,
               present ? ", was up to date" : "");
  }
}

}  // namespace

void add_records_index(CLI::App& command) {
  const auto options = std::make_shared<RecordsIndexOptions>();
  command.add_option("FILE", options->files, "TFRecord files, globs or NAME@N")->required();
  command.add_flag("--force", options->force, "Replace valid indexes too");
  command.callback([options] { run(*options); });
}

}  // namespace muster::cli
