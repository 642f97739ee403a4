#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/muster.h"

namespace census {

/// The command line.
struct Flags {
  std::vector<std::string> train_files, eval_files, predict_files;
  std::string synthetic;
  std::size_t synthetic_people = muster::SyntheticCensusOptions().train;
  bool evaluate_only = false;
  /// All of these flags, for TensorBoard's HPARAMS.
  std::map<std::string, std::string> hparams;
  std::string model = "wide_deep";
  std::string setting = "seed";
  std::uint64_t num_epochs = 0;
  std::int64_t train_steps = 0;
  std::size_t train_batch_size = 40;
  std::size_t eval_batch_size = 40;
  std::int64_t eval_steps = 0;
  std::int64_t embedding_size = 8;
  std::int64_t first_layer_size = 100;
  std::int64_t num_layers = 4;
  double scale_factor = 0.7;
  std::string numbers = "raw";
  double dnn_learning_rate = 0;
  double dropout = 0;
  double clip_global_norm = 0;
  std::string schedule = "constant";
  std::int64_t num_trees = 300;
  std::string export_format;
  std::size_t num_parallel_calls = 1;
  std::size_t prefetch_buffer_size = 4;
  muster::RunFlags run{};
  std::int64_t save_checkpoints_steps = 0;

  /// Whether a model is trained, and not evaluated or asked alone.
  bool trains() const { return !evaluate_only && predict_files.empty(); }
  /// The layers of the network, by --first-layer-size, --num-layers and --scale-factor.
  std::vector<std::int64_t> hidden_units() const;
  muster::RunConfig run_config() const;
};

/// Reads the command line; nothing after --help. Throws UsageError for flags that do not go
/// together.
std::optional<Flags> parse_flags(int argc, char** argv);

}  // namespace census
