#include "examples/cifar10/plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "muster/nn/device/devices.h"

namespace cifar10 {
namespace {

using muster::UsageError;

constexpr std::array<std::int64_t, 3> kBoundaryEpochs{82, 123, 300};
constexpr std::array<double, 4> kDivisors{1, 10, 100, 500};

// Towers by name: those asked for, or GPUs from the first on.
std::vector<std::string> devices_of(const Flags& flags, std::int64_t gpus, bool is_ps) {
  if (!flags.devices.empty()) return flags.devices;
  const std::int64_t wanted = flags.num_gpus.value_or(std::min<std::int64_t>(gpus, 1));
  if (wanted > gpus && !is_ps) {
    throw UsageError("--num-gpus={}, but {}; give --num-gpus={}{}", wanted,
                     gpus == 0 ? "this machine has no GPU that libtorch can use"
                               : fmt::format("this machine has {}", gpus),
                     gpus, gpus == 0 ? " to train on the CPU" : "");
  }
  if (!flags.num_gpus && gpus == 0)
    muster::resolve_devices({});  // None may be there, or none asked for.
  std::vector<std::string> devices;
  for (std::int64_t i = 0; i < wanted; ++i) devices.push_back(fmt::format("cuda:{}", i));
  if (devices.empty()) devices.push_back("cpu");
  return devices;
}

void check_workers(const Flags& flags, const muster::TaskEnvironment& task) {
  if (!flags.num_workers || *flags.num_workers == task.num_worker_replicas) return;
  if (task.is_evaluator()) return;  // It is not told of the others.
  if (task.is_alone()) {
    throw UsageError(
        "--num-workers={}, but this process trains alone: `muster launch --workers {} -- ...` "
        "starts a cluster, or leave the flag out",
        *flags.num_workers, *flags.num_workers - 1);
  }
  throw UsageError(
      "--num-workers={}, but the cluster has {} tasks that train, its master or chief included; "
      "leave the flag out, and the cluster's number is taken",
      *flags.num_workers, task.num_worker_replicas);
}

std::string python_bool(bool value) { return value ? "True" : "False"; }

// Terms of the run that only the flags say: tasks with other ones are refused.
std::map<std::string, std::string> terms_of(const Flags& flags) {
  const auto number = [](auto value) { return fmt::format("{}", value); };
  return {{"--train-on", flags.train_on},
          {"--train-batch-size", number(flags.train_batch_size)},
          {"--learning-rate", number(flags.learning_rate)},
          {"--momentum", number(flags.momentum)},
          {"--weight-decay", number(flags.weight_decay)},
          {"--num-layers", number(flags.num_layers)},
          {"--batch-norm-decay", number(flags.batch_norm_decay)},
          {"--batch-norm-epsilon", number(flags.batch_norm_epsilon)},
          {"--use-distortion-for-training", python_bool(flags.use_distortion_for_training)},
          {"--image-size", number(flags.image_size)},
          {"--brightness", number(flags.brightness)},
          {"--contrast-lower", number(flags.contrast_lower)},
          {"--contrast-upper", number(flags.contrast_upper)},
          {"--whitening", python_bool(flags.whitening)},
          {"--gpu-augmentation", python_bool(flags.gpu_augmentation)},
          {"--same-batch", python_bool(flags.same_batch)},
          {"--fused-kernels", python_bool(flags.fused_kernels)}};
}

}  // namespace

Layout layout_of(const Flags& flags, const muster::TaskEnvironment& task, std::int64_t gpus) {
  check_workers(flags, task);
  muster::check_cluster_flags(flags.cluster, task);
  Layout layout;
  const bool is_ps = task.task.type == muster::job::kPs;
  layout.devices = devices_of(flags, gpus, is_ps);
  layout.on_gpu = layout.devices.front().starts_with("cuda") && !is_ps;
  if (flags.variable_strategy == "GPU" && !layout.on_gpu && !is_ps) {
    throw UsageError("--variable-strategy=GPU, but there is no GPU among the towers: {}",
                     fmt::join(layout.devices, ", "));
  }
  layout.tasks = std::max<std::int64_t>(1, task.num_worker_replicas);
  const auto towers = static_cast<std::int64_t>(layout.devices.size());
  layout.replicas = flags.replicas > 0 ? flags.replicas : layout.tasks * towers;
  layout.step_images = flags.train_batch_size * layout.tasks;
  if (layout.step_images % layout.replicas != 0) {
    throw UsageError(
        "--train-batch-size={} of {} tasks are {} images a step, which {} replicas cannot share "
        "evenly",
        flags.train_batch_size, layout.tasks, layout.step_images, layout.replicas);
  }
  layout.replica_batch = layout.step_images / layout.replicas;
  layout.update_images = flags.cluster.sync ? layout.step_images : flags.train_batch_size;
  if (is_ps) layout.devices = {"cpu"};
  return layout;
}

muster::LearningRate schedule(double learning_rate, std::int64_t epoch_images,
                              std::int64_t step_images) {
  const std::int64_t epoch_steps = std::max<std::int64_t>(1, epoch_images / step_images);
  std::vector<std::int64_t> boundaries;
  for (const auto epochs : kBoundaryEpochs) boundaries.push_back(epochs * epoch_steps);
  std::vector<double> rates;
  for (const auto divisor : kDivisors) rates.push_back(learning_rate / divisor);
  return muster::piecewise(std::move(boundaries), std::move(rates));
}

NetworkOptions network_options(const Flags& flags, const Layout& layout) {
  NetworkOptions options;
  options.resnet.num_layers = flags.num_layers;
  options.resnet.fused = flags.fused_kernels;
  options.resnet.batch_norm_decay = flags.batch_norm_decay;
  options.resnet.batch_norm_epsilon = flags.batch_norm_epsilon;
  options.resnet.channels_last =
      flags.data_format.empty() ? layout.on_gpu : flags.data_format == "channels_last";
  options.crop.image = {kSide, kSide};
  options.crop.crop = {flags.image_size, flags.image_size};
  // The seeds put 4 zeros around images that keep their size; smaller parts need none.
  options.crop.padding = flags.image_size < kSide ? 0 : 4;
  options.crop.mirror = true;
  options.whitening = flags.whitening;
  return options;
}

TrainingInput training_plan(const Flags& flags, const Layout& layout,
                            std::vector<muster::Path> files, std::int64_t images) {
  TrainingInput input{
      .files = std::move(files), .images = images, .batch_size = layout.replica_batch};
  if (flags.use_distortion_for_training) {
    input.distortion = Distortion{.crop = network_options(flags, layout).crop,
                                  .max_brightness = flags.brightness,
                                  .min_contrast = flags.contrast_lower,
                                  .max_contrast = flags.contrast_upper,
                                  .crop_later = flags.gpu_augmentation};
  }
  // A thread makes more images than a CPU can train on, and takes none of its time while it waits.
  const std::size_t processors = muster::ThreadPool::available_processors();
  const std::size_t enough =
      std::clamp<std::size_t>(processors / (2 * layout.devices.size()), 1, 4);
  input.threads = flags.num_input_threads > 0 ? static_cast<std::size_t>(flags.num_input_threads)
                  : layout.on_gpu             ? enough
                                              : 1;
  input.same_batch = flags.same_batch;
  return input;
}

muster::RunConfig run_config(const Flags& flags, const Layout& layout,
                             const muster::RunConfig& environment) {
  if (flags.job_dir.empty() && environment.model_dir.empty()) {
    throw UsageError("--job-dir is needed: checkpoints, events and exports go there");
  }
  if (!environment.model_dir.empty()) {
    muster::log::info("Using model_dir in TF_CONFIG: {}", environment.model_dir.string());
  }
  muster::CheckpointConfig checkpoints{.keep_checkpoint_max = flags.keep_checkpoint_max};
  const std::int64_t save_steps =
      flags.save_checkpoints_steps > 0 ? flags.save_checkpoints_steps : flags.eval_every;
  if (save_steps > 0) checkpoints.save_checkpoints_steps = save_steps;
  if (flags.save_checkpoints_secs > 0) {
    checkpoints.save_checkpoints_secs = std::chrono::seconds(flags.save_checkpoints_secs);
  }
  muster::RunConfig config{
      .model_dir = flags.job_dir.empty() ? environment.model_dir : muster::Path(flags.job_dir),
      .save_summary_steps = flags.save_summary_steps,
      .checkpoints = checkpoints,
      .reproducibility = {.tf_random_seed = flags.seed,
                          .replicas = flags.replicas,
                          .threads_per_replica = flags.num_intra_threads,
                          .precision = flags.precision == "bfloat16"
                                           ? muster::ComputeType::kBfloat16
                                           : muster::ComputeType::kFloat32,
                          .deterministic = flags.deterministic},
      .devices = {.names = layout.devices,
                  .variable_strategy = flags.variable_strategy == "CPU"
                                           ? muster::VariableStrategy::kCpu
                                           : muster::VariableStrategy::kDevices,
                  .capture_steps = flags.capture_steps,
                  .logical_devices = flags.logical_devices,
                  .concurrent_replicas = flags.num_inter_threads},
      .cluster = muster::cluster_config(flags.cluster, environment.cluster.task),
      .hparams = flags.hparams};
  config.cluster.terms = terms_of(flags);
  config.check();
  return config;
}

}  // namespace cifar10
