#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/muster.h"

namespace cifar10 {

/// The command line. Every flag has the spelling of the final original, with dashes, and that of
/// the earlier one, with underscores.
struct Flags {
  /// All flags, for TensorBoard's HPARAMS.
  std::map<std::string, std::string> hparams;
  std::string data_dir;
  /// Empty where TF_CONFIG names the folder.
  std::string job_dir;
  std::string train_on = "train";
  std::string eval_on = "eval";

  /// Not given: one GPU where there is one.
  std::optional<std::int64_t> num_gpus;
  /// Towers by name, instead of num_gpus: "cuda:0", "cuda:0".
  std::vector<std::string> devices;
  /// "CPU", "GPU", or empty: with the towers.
  std::string variable_strategy;
  std::int64_t num_layers = 44;
  std::string data_format;
  double batch_norm_decay = 0.997;
  double batch_norm_epsilon = 1e-5;

  std::int64_t train_steps = 80'000;
  std::int64_t train_batch_size = 128;
  std::int64_t eval_batch_size = 100;
  double learning_rate = 0.1;
  double momentum = 0.9;
  double weight_decay = 2e-4;
  /// 0: as many as the training files have.
  std::int64_t epoch_size = 0;
  std::string precision = "float32";

  bool use_distortion_for_training = true;
  std::int64_t image_size = 32;
  double brightness = 0;
  double contrast_lower = 1;
  double contrast_upper = 1;
  bool whitening = false;
  bool gpu_augmentation = false;
  /// 0: decide.
  std::int64_t num_input_threads = 0;
  bool same_batch = false;

  bool run_experiment = false;
  muster::ClusterFlags cluster;
  std::optional<std::int64_t> num_workers;
  std::int64_t replicas = 0;
  int num_intra_threads = 0;
  int num_inter_threads = 0;
  bool deterministic = true;
  bool capture_steps = true;
  bool logical_devices = false;
  bool fused_kernels = true;
  bool log_device_placement = false;

  std::uint64_t seed = 0;
  /// 0: an evaluation for each checkpoint, as throttle_secs allows.
  std::int64_t eval_every = 0;
  std::int64_t save_checkpoints_steps = 0;
  std::int64_t save_checkpoints_secs = 0;
  std::int64_t keep_checkpoint_max = 5;
  std::int64_t save_summary_steps = 100;
  std::int64_t throttle_secs = 0;
};

/// The flags, or the status with which the program ends at once: 0 after --help.
struct ParsedFlags {
  Flags flags;
  std::optional<int> exit_status;
};
/// Throws UsageError for words that do not parse and for unknown ones.
ParsedFlags parse_flags(const std::vector<std::string>& arguments);

/// Throws UsageError, naming the flag, for what can be told without looking at machine, cluster or
/// data.
void check(const Flags& flags);

}  // namespace cifar10
