#include "muster/data/checkpoint/checkpoint_state.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/base/log.h"
#include "muster/checkpoint_state.pb.h"

namespace muster {
namespace {

constexpr std::uint64_t kMaxStateBytes = std::uint64_t{64} << 20;

constexpr const char* kStateFile = "checkpoint";

Path state_path(const Path& model_dir) { return model_dir / kStateFile; }

/// Keeps the first complaint, which says where the text is wrong.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!text.empty()) return;
    text = fmt::format("line {} column {}: {}", line + 1, column + 1, message);
  }
  std::string text;
};

CheckpointState parse(const std::string& text) {
  proto::CheckpointState stored;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &stored)) throw DataLoss("{}", error.text);
  CheckpointState state;
  state.model_checkpoint_path = stored.model_checkpoint_path();
  state.all_model_checkpoint_paths.assign(stored.all_model_checkpoint_paths().begin(),
                                          stored.all_model_checkpoint_paths().end());
  state.all_model_checkpoint_timestamps.assign(stored.all_model_checkpoint_timestamps().begin(),
                                               stored.all_model_checkpoint_timestamps().end());
  if (stored.has_last_preserved_timestamp()) {
    state.last_preserved_timestamp = stored.last_preserved_timestamp();
  }
  return state;
}

}  // namespace

std::optional<CheckpointState> read_checkpoint_state(const Path& model_dir) {
  const Path path = state_path(model_dir);
  try {
    if (!file_exists(path)) return std::nullopt;
    return parse(read_file_inside(model_dir, kStateFile, kMaxStateBytes));
  } catch (const Error& error) {
    log::warning(
        "cannot read the checkpoint state file, going on as if it were absent path={} error=\"{}\"",
        path.string(), error.what());
    return std::nullopt;
  }
}

void write_checkpoint_state(const Path& model_dir, const CheckpointState& state) {
  proto::CheckpointState stored;
  stored.set_model_checkpoint_path(state.model_checkpoint_path);
  for (const auto& path : state.all_model_checkpoint_paths) {
    stored.add_all_model_checkpoint_paths(path);
  }
  for (const double timestamp : state.all_model_checkpoint_timestamps) {
    stored.add_all_model_checkpoint_timestamps(timestamp);
  }
  if (state.last_preserved_timestamp) {
    stored.set_last_preserved_timestamp(*state.last_preserved_timestamp);
  }
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(stored, &text)) {
    throw Internal("could not print the checkpoint state");
  }
  write_file_atomically(state_path(model_dir), text);
}

}  // namespace muster
