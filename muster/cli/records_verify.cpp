#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/progress.h"
#include "muster/cli/records.h"
#include "muster/data/records/record_index.h"
#include "muster/data/records/record_reader.h"
#include "muster/data/records/sharded_files.h"

namespace muster::cli {
namespace {

struct RecordsVerifyOptions {
  std::vector<std::string> files;
  bool json = false;
  std::uint64_t max_errors = 20;
};

struct Verdict {
  std::string file;
  std::uint64_t records = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t smallest = 0;
  std::uint64_t largest = 0;
  std::uint64_t bad = 0;
  std::string compression{};
  std::string index{};
  std::vector<std::string> errors{};
};

void count(Verdict& verdict, std::uint64_t bytes) {
  verdict.smallest = verdict.records == 0 ? bytes : std::min(verdict.smallest, bytes);
  verdict.largest = std::max(verdict.largest, bytes);
  verdict.payload_bytes += bytes;
  ++verdict.records;
}

// "none", "valid", or why it cannot be used. An index that disagrees with the file is damage.
void check_index(const Path& file, Verdict& verdict) {
  verdict.index = "none";
  if (!file_exists(RecordIndex::path_for(file))) return;
  try {
    const RecordIndex index = RecordIndex::load(file);
    if (verdict.bad == 0 && index.count() != verdict.records) {
      throw DataLoss("{} counts {} records where the file has {}",
                     RecordIndex::path_for(file).string(), index.count(), verdict.records);
    }
    verdict.index = "valid";
  } catch (const FailedPrecondition& stale) {
    verdict.index = "stale";
  } catch (const Error& error) {
    verdict.index = "damaged";
    verdict.errors.emplace_back(error.what());
    ++verdict.bad;
  }
}

Verdict verify(const Path& file, std::uint64_t max_errors) {
  Verdict verdict{.file = file.string()};
  RecordReaderOptions options;
  options.skip_bad_records = std::numeric_limits<std::uint64_t>::max();
  options.on_bad_record = [&](const Error& error) {
    if (verdict.errors.size() < max_errors) verdict.errors.emplace_back(error.what());
    ++verdict.bad;
  };
  try {
    RecordReader reader(file, options);
    verdict.compression = name_of(reader.compression());
    Progress progress("verifying " + file.filename().string(), 0, "records");
    while (const auto record = reader.next()) {
      count(verdict, record->size());
      progress.update(verdict.records);
    }
  } catch (const NotFound&) {
    throw;
  } catch (
      const Error& error) {  // Beyond passing over: this file ends here, the next one is looked at.
    verdict.errors.emplace_back(error.what());
    ++verdict.bad;
  }
  check_index(file, verdict);
  return verdict;
}

void print(const Verdict& verdict) {
  fmt::print("{}: {}, {} records, {} of data", verdict.file, verdict.bad == 0 ? "OK" : "DAMAGED",
             verdict.records, human_bytes(static_cast<double>(verdict.payload_bytes)));
  if (verdict.records > 0) fmt::print(", {} to {} bytes each", verdict.smallest, verdict.largest);
  fmt::print(", compression {}, index {}\n",
             verdict.compression.empty() ? "?" : verdict.compression, verdict.index);
  for (const auto& error : verdict.errors) fmt::print("  {}\n", error);
  if (verdict.bad > verdict.errors.size()) {
    fmt::print("  and {} more (--max-errors shows more)\n", verdict.bad - verdict.errors.size());
  }
}

void print_json(const Verdict& verdict) {
  const nlohmann::json line{{"file", verdict.file},
                            {"ok", verdict.bad == 0},
                            {"records", verdict.records},
                            {"payload_bytes", verdict.payload_bytes},
                            {"smallest_bytes", verdict.smallest},
                            {"largest_bytes", verdict.largest},
                            {"bad", verdict.bad},
                            {"compression", verdict.compression},
                            {"index", verdict.index},
                            {"errors", verdict.errors}};
  fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void run(const RecordsVerifyOptions& options) {
  std::uint64_t damaged = 0;
  const auto files = expand_files(options.files);
  for (const auto& file : files) {
    const Verdict verdict = verify(file, options.max_errors);
    options.json ? print_json(verdict) : print(verdict);
    damaged += verdict.bad > 0 ? 1 : 0;
  }
  if (damaged > 0) throw DataLoss("{} of {} files are damaged", damaged, files.size());
}

}  // namespace

void add_records_verify(CLI::App& command) {
  const auto options = std::make_shared<RecordsVerifyOptions>();
  command.add_option("FILE", options->files, "TFRecord files, globs or NAME@N")->required();
  add_json_flag(command, options->json, "One JSON object per file");
  command.add_option("--max-errors", options->max_errors, "Errors printed per file")
      ->capture_default_str();
  command.callback([options] { run(*options); });
}

}  // namespace muster::cli
