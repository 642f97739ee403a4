#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// State that a checkpoint keeps beside its tensors, in model.ckpt-N.state.json: all that a resumed
/// run needs to continue to the bit.
struct RunState {
  std::int64_t global_step = 0;
  std::int64_t replicas = 1;
  int threads_per_replica = 1;
  std::uint64_t seed = 0;
  /// Fingerprint of the run's arithmetic: see arithmetic().fingerprint().
  std::string arithmetic{};
  /// Whether steps were compiled, and by what: see compile_term(). "off" in checkpoints of earlier
  /// versions.
  std::string compile = "off";
  /// Loss scale of float16, and the number of steps since it last changed.
  double loss_scale = 1.0;
  std::int64_t loss_scale_steps = 0;
  /// How many batches were taken from each input, skipped ones included. Nothing in
  /// checkpoints of a cluster and of earlier versions.
  std::optional<std::int64_t> batches{};
  /// One a replica: the position of its input. Nothing where the input cannot be resumed.
  std::vector<std::optional<std::string>> inputs{};
  /// Why an input cannot be resumed; empty if all can.
  std::string input_obstacle{};
};

std::string to_json(const RunState& state);
/// Throws DataLoss, naming the field, for text that cannot be parsed. `name` stands for the file.
RunState parse_run_state(std::string_view json, std::string_view name);

}  // namespace muster
