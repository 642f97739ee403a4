#include "muster/cli/split_writer.h"

#include <fmt/core.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/data/records/compression.h"

namespace muster::cli {
namespace {

RecordWriterOptions writer_options(const OutputOptions& options) {
  return {.compression = parse_compression(options.compression), .write_index = !options.no_index};
}

Path announced(const OutputOptions& options, const std::string& name) {
  file_system_for(options.folder).create_directories(options.folder);
  Path path = Path(options.folder) / name;
  fmt::print("Generating {}\n", path.string());
  std::fflush(stdout);
  return path;
}

}  // namespace

void add_output_flags(CLI::App& command, OutputOptions& options) {
  command.add_option("--output", options.folder, "Folder for the TFRecord files; made if missing")
      ->required();
  command.add_option("--compression", options.compression, "NONE, GZIP or ZLIB")
      ->capture_default_str();
  command.add_flag("--no-index", options.no_index, "Do not write FILE.index beside each file");
}

OutputFile::OutputFile(const OutputOptions& options, const std::string& name,
                       std::uint64_t expected_records)
    : path_(announced(options, name)),
      writer_(path_, writer_options(options)),
      progress_(path_.filename().string(), expected_records, "records") {}

void OutputFile::append(std::string_view record) {
  writer_.append(record);
  progress_.update(writer_.records());
}

void OutputFile::close() {
  writer_.close();
  progress_.clear();
  fmt::print("  {} records, {}, {:.1f} s\n", writer_.records(),
             human_bytes(static_cast<double>(writer_.bytes())), progress_.seconds());
}

void add_split_flags(CLI::App& command, SplitOptions& options) {
  command
      .add_option("--validation-fraction", options.validation_fraction,
                  "Share of the rows kept for validation")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Of the random order and split")
      ->capture_default_str();
}

void write_split(const OutputOptions& output, const SplitOptions& split, std::uint64_t count,
                 const MakeRecord& make) {
  const auto validation = static_cast<std::uint64_t>(
      std::llround(split.validation_fraction * static_cast<double>(count)));
  const Permutation order(count, split.seed);
  std::string record;
  const auto write = [&](const std::string& name, std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return;
    OutputFile file(output, name, end - begin);
    for (std::uint64_t place = begin; place < end; ++place) {
      record.clear();
      make(order(place), record);
      file.append(record);
    }
    file.close();
  };
  write("train.tfrecords", 0, count - validation);
  write("validation.tfrecords", count - validation, count);
}

std::optional<Path> find_input(const Path& folder, const std::vector<std::string>& subfolders,
                               const std::vector<std::string>& names) {
  std::vector<Path> folders{folder};
  for (const auto& subfolder : subfolders) folders.push_back(folder / subfolder);
  for (const auto& place : folders) {
    for (const auto& name : names) {
      for (const char* ending : {"", ".gz", ".xz"}) {
        if (file_exists(place / (name + ending))) return place / (name + ending);
      }
    }
  }
  return std::nullopt;
}

}  // namespace muster::cli
