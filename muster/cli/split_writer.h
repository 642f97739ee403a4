#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/cli/progress.h"
#include "muster/data/records/record_writer.h"

namespace muster::cli {

/// Where `records write` puts its files, and how.
struct OutputOptions {
  std::string folder{};
  std::string compression = "NONE";
  bool no_index = false;
};
void add_output_flags(CLI::App& command, OutputOptions& options);

/// One TFRecord file of the output, announced when it begins and published whole by close().
class OutputFile {
 public:
  OutputFile(const OutputOptions& options, const std::string& name, std::uint64_t expected_records);
  void append(std::string_view record);
  void close();

 private:
  Path path_;
  RecordWriter writer_;
  Progress progress_;
};

/// How rows are dealt to train.tfrecords and validation.tfrecords.
struct SplitOptions {
  double validation_fraction = 0.2;
  std::uint64_t seed = 0;
};
void add_split_flags(CLI::App& command, SplitOptions& options);

/// Puts record `i` into `out`, which comes empty.
using MakeRecord = std::function<void(std::uint64_t i, std::string& out)>;

/// Writes `count` records in a random order that depends on the seed alone, the last share of them
/// for validation. A file whose share is empty is not written.
void write_split(const OutputOptions& output, const SplitOptions& split, std::uint64_t count,
                 const MakeRecord& make);

/// DIR/NAME with any of the endings, as it is or compressed (.gz, .xz), in DIR or one of
/// `subfolders`. Nothing if there is none.
std::optional<Path> find_input(const Path& folder, const std::vector<std::string>& subfolders,
                               const std::vector<std::string>& names);

}  // namespace muster::cli
