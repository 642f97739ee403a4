#include "muster/serving/batch/shard_state.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/open_file.h"
#include "muster/serving/batch/shard_state_internal.h"

namespace muster::serving {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostStateBytes = 1 << 16;
// Files are read in pieces of this size.
constexpr std::size_t kReadPieceBytes = std::size_t{1} << 20;

// The CRC-32C of the first bytes of a file; nothing where it has fewer.
std::optional<std::uint32_t> crc32c_of(const Path& path, std::uint64_t bytes) {
  if (bytes == 0) return 0;
  if (!file_exists(path)) return std::nullopt;
  const OpenFile file(path, O_RDONLY);
  std::string piece(kReadPieceBytes, '\0');
  std::uint32_t crc = 0;
  while (bytes > 0) {
    const ssize_t count =
        ::read(file.get(), piece.data(), std::min<std::uint64_t>(piece.size(), bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno(errno, "reading " + path.string());
    if (count == 0) return std::nullopt;
    crc = crc32c(std::string_view(piece).substr(0, static_cast<std::size_t>(count)), crc);
    bytes -= static_cast<std::uint64_t>(count);
  }
  return crc;
}

std::string hexadecimal(std::uint32_t crc) { return fmt::format("{:08x}", crc); }

std::uint32_t parse_crc(const json& value) {
  const auto text = value.get<std::string>();
  std::uint32_t crc = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), crc, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw DataLoss("\"{}\" is no checksum", text);
  }
  return crc;
}

// Everything but the checksum of it.
json json_of(const ShardState& state) {
  return {{"records", state.records},
          {"result_bytes", state.result_bytes},
          {"error_bytes", state.error_bytes},
          {"result_crc32c", hexadecimal(state.result_crc32c)},
          {"error_crc32c", hexadecimal(state.error_crc32c)},
          {"predictions", state.counts.predictions},
          {"errors", state.counts.errors},
          {"seconds", state.counts.seconds},
          {"complete", state.complete}};
}

// A move that may have been made before a kill.
void move_once(const Path& from, const Path& to) {
  FileSystem& files = file_system_for(from);
  if (files.status(from)) {
    files.rename(from, to);
  } else if (!files.status(to)) {
    throw DataLoss("neither {} nor {} is there, and the shard is complete", from.string(),
                   to.string());
  }
}

// Where the lines of a shard are: under their name once it is published.
Path place_of(const Path& unpublished, const Path& published) {
  return file_exists(unpublished) ? unpublished : published;
}

bool is_as_saved(const Path& output_path, const BatchJob& job, std::uint64_t shard,
                 const ShardState& saved) {
  const Path results = place_of(batch_shard_path(output_path, shard, "results"),
                                batch_results_path(output_path, job, shard));
  const Path errors = place_of(batch_shard_path(output_path, shard, "errors"),
                               batch_errors_path(output_path, job, shard));
  return crc32c_of(results, saved.result_bytes) == saved.result_crc32c &&
         crc32c_of(errors, saved.error_bytes) == saved.error_crc32c;
}

void remove_if_there(const Path& path) {
  FileSystem& files = file_system_for(path);
  if (files.status(path)) files.remove(path);
}

}  // namespace

void write_shard_state(const Path& output_path, std::uint64_t shard, const ShardState& state) {
  json made = json_of(state);
  made["crc32c"] = hexadecimal(crc32c(made.dump()));
  write_file_atomically(batch_shard_path(output_path, shard, "json"), made.dump(1) + "\n");
}

void publish_shard(const Path& output_path, const BatchJob& job, std::uint64_t shard) {
  move_once(batch_shard_path(output_path, shard, "errors"),
            batch_errors_path(output_path, job, shard));
  move_once(batch_shard_path(output_path, shard, "results"),
            batch_results_path(output_path, job, shard));
  file_system_for(output_path).sync_directory(output_path);
}

ShardState resumable_shard_state(const Path& output_path, const BatchJob& job,
                                 std::uint64_t shard) {
  const auto saved = read_shard_state(output_path, shard);
  if (!saved) return {};
  if (is_as_saved(output_path, job, shard, *saved)) return *saved;
  log::warning(
      "lines of shard {} that were saved are gone or differ; it starts again from its beginning",
      shard);
  return {};
}

std::optional<ShardState> read_shard_state(const Path& output_path, std::uint64_t shard) {
  const Path path = batch_shard_path(output_path, shard, "json");
  if (!file_exists(path)) return std::nullopt;
  try {
    json value = json::parse(read_file(path, kMostStateBytes));
    const std::uint32_t wanted = parse_crc(value.at("crc32c"));
    value.erase("crc32c");
    if (crc32c(value.dump()) != wanted) throw DataLoss("its checksum differs");
    return ShardState{.records = value.at("records").get<std::uint64_t>(),
                      .result_bytes = value.at("result_bytes").get<std::uint64_t>(),
                      .error_bytes = value.at("error_bytes").get<std::uint64_t>(),
                      .result_crc32c = parse_crc(value.at("result_crc32c")),
                      .error_crc32c = parse_crc(value.at("error_crc32c")),
                      .counts = {.predictions = value.at("predictions").get<std::uint64_t>(),
                                 .errors = value.at("errors").get<std::uint64_t>(),
                                 .seconds = value.at("seconds").get<double>()},
                      .complete = value.at("complete").get<bool>()};
  } catch (const std::exception& error) {
    throw DataLoss("{} is damaged: {}. Remove it, and the shard starts again", path.string(),
                   muster::describe(std::current_exception()).message);
  }
}

void check_published_shards(const Path& output_path, const BatchJob& job) {
  for (std::uint64_t shard = 0; shard < job.shards; ++shard) {
    if (!is_published(output_path, job, shard)) continue;
    const auto saved = read_shard_state(output_path, shard);
    if (is_as_saved(output_path, job, shard, *saved)) continue;
    log::warning(
        "results of shard {} are not those that were written; it starts again from its "
        "beginning",
        shard);
    // The state goes first: without it nothing else counts.
    remove_if_there(batch_shard_path(output_path, shard, "json"));
    remove_if_there(batch_results_path(output_path, job, shard));
    remove_if_there(batch_errors_path(output_path, job, shard));
  }
}

std::vector<WrittenFile> files_of_shards(const Path& output_path, const BatchJob& job) {
  std::vector<WrittenFile> files;
  for (std::uint64_t shard = 0; shard < job.shards; ++shard) {
    const auto state = read_shard_state(output_path, shard);
    if (!state) throw Internal("shard {} has no state, though it is published", shard);
    const auto name = [](const Path& path) { return path.filename().string(); };
    files.push_back({.name = name(batch_results_path(output_path, job, shard)),
                     .bytes = state->result_bytes,
                     .crc32c = state->result_crc32c});
    files.push_back({.name = name(batch_errors_path(output_path, job, shard)),
                     .bytes = state->error_bytes,
                     .crc32c = state->error_crc32c});
  }
  return files;
}

bool is_published(const Path& output_path, const BatchJob& job, std::uint64_t shard) {
  const auto state = read_shard_state(output_path, shard);
  return state && state->complete && file_exists(batch_errors_path(output_path, job, shard)) &&
         file_exists(batch_results_path(output_path, job, shard));
}

}  // namespace muster::serving
