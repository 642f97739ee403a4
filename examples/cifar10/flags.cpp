#include "examples/cifar10/flags.h"

#include <fmt/core.h>

#include "muster/muster.h"

namespace cifar10 {
namespace {

void add_data_flags(muster::FlagSet& set, Flags& flags) {
  set.add("--data-dir", &flags.data_dir,
          "Folder with train, validation and eval.tfrecords, from `muster records write "
          "cifar10`");
  set.add("--job-dir,--model-dir", &flags.job_dir,
          "Folder of checkpoints, events and exports; TF_CONFIG may name it, too");
  set.add("--train-on", &flags.train_on, "The images to train on")
      .one_of({"train", "train+validation"});
  set.add("--eval-on", &flags.eval_on, "The images to evaluate with")
      .one_of({"eval", "validation"});
}

void add_model_flags(muster::FlagSet& set, Flags& flags) {
  set.add("--num-layers", &flags.num_layers, "6n + 2 layers");
  set.add("--data-format", &flags.data_format,
          "channels_first or channels_last in memory; not given: what is faster")
      .one_of({"channels_first", "channels_last"});
  set.add("--batch-norm-decay", &flags.batch_norm_decay, "What stays of a moving statistic");
  set.add("--batch-norm-epsilon", &flags.batch_norm_epsilon, "Added to variances");
}

void add_training_flags(muster::FlagSet& set, Flags& flags) {
  set.add("--train-steps", &flags.train_steps, "Train up to this global step");
  set.add("--train-batch-size", &flags.train_batch_size,
          "Images of a step of this process, split over its towers");
  set.add("--eval-batch-size", &flags.eval_batch_size, "Images evaluated at a time");
  set.add("--learning-rate", &flags.learning_rate, "Of the first 82 epochs");
  set.add("--momentum", &flags.momentum, "Of the optimizer");
  set.add("--weight-decay", &flags.weight_decay, "L2, over all trainable variables");
  set.add("--epoch-size", &flags.epoch_size,
          "Images of an epoch of the learning rate's schedule: 45000 for the original's; 0: "
          "those there are")
      .not_negative();
  set.add("--precision", &flags.precision, "Precision of forward and backward")
      .one_of({"float32", "bfloat16"});
  set.add("--seed", &flags.seed, "The same seed gives the same weights");
}

void add_input_flags(muster::FlagSet& set, Flags& flags) {
  set.add("--use-distortion-for-training", &flags.use_distortion_for_training,
          "Crop and mirror training images at random (the default)");
  set.add("--image-size", &flags.image_size, "Side of what is cropped from the 32x32 images");
  set.add("--brightness", &flags.brightness, "Adds up to this to the pixels of an image");
  set.add("--contrast-lower", &flags.contrast_lower, "Smallest factor of contrast");
  set.add("--contrast-upper", &flags.contrast_upper, "Largest factor of contrast");
  set.add("--whitening", &flags.whitening, "Bring each image to mean 0 and variance 1");
  set.add("--gpu-augmentation", &flags.gpu_augmentation,
          "Crop and mirror where the model runs, with the same result");
  set.add("--num-input-threads", &flags.num_input_threads,
          "Threads that make batches, for each tower; 0: decide")
      .not_negative();
  set.add("--same-batch", &flags.same_batch,
          "Train on the first batch again and again, to see what steps cost without input");
}

void add_layout_flags(muster::FlagSet& set, Flags& flags) {
  set.add("--num-gpus", &flags.num_gpus,
          "Towers on as many GPUs; 0: CPU only; not given: 1 where there is one");
  set.add("--devices", &flags.devices, "Towers by name instead of --num-gpus: cuda:0,cpu")
      .separated_by(',');
  set.add("--variable-strategy", &flags.variable_strategy,
          "Where variables live: CPU or GPU; not given: with the towers")
      .one_of({"CPU", "GPU"});
  set.add_action(
      "--is-cpu-ps",
      [&flags](bool yes) {
        const std::string wanted = yes ? "CPU" : "GPU";
        if (!flags.variable_strategy.empty() && flags.variable_strategy != wanted) {
          throw muster::UsageError(
              "--is_cpu_ps and --variable-strategy={} say different things: leave one out",
              flags.variable_strategy);
        }
        flags.variable_strategy = wanted;
      },
      "The same as --variable-strategy=CPU; =False as GPU");
  set.add("--replicas", &flags.replicas,
          "Parts of a step of the whole cluster; 0: one for each tower")
      .not_negative();
  set.add("--num-intra-threads,--threads-per-replica", &flags.num_intra_threads,
          "CPU threads of a replica; 0: decide")
      .not_negative();
  set.add("--num-inter-threads,--concurrent-replicas", &flags.num_inter_threads,
          "Replicas that run at a time on a CPU; 0: decide")
      .not_negative();
  set.add("--deterministic", &flags.deterministic,
          "The same bits every time (the default); =false lets GPU libraries choose");
  set.add("--capture-steps", &flags.capture_steps,
          "On a GPU: record a step once and replay it (the default)");
  set.add("--logical-devices", &flags.logical_devices,
          "Each of --devices is one of its own, also where two are the same GPU");
  set.add("--fused-kernels", &flags.fused_kernels,
          "Kernels of our own where there are some (the default); =false: libtorch's");
  set.add("--log-device-placement", &flags.log_device_placement,
          "Log where towers and variables are");
}

void add_run_flags(muster::FlagSet& set, Flags& flags, bool& force_gpu_compatible) {
  set.add("--run-experiment", &flags.run_experiment,
          "Evaluate while training; always so in a cluster");
  muster::add_cluster_flags(set, flags.cluster);
  set.add("--num-workers", &flags.num_workers,
          "Tasks that train; the cluster says so itself, and this is checked against it");
  set.add("--eval-every", &flags.eval_every,
          "Evaluate at multiples of this step; 0: at each checkpoint")
      .not_negative();
  set.add("--throttle-secs", &flags.throttle_secs, "Evaluate at most this often").not_negative();
  set.add("--save-checkpoints-steps", &flags.save_checkpoints_steps, "0: by time").not_negative();
  set.add("--save-checkpoints-secs", &flags.save_checkpoints_secs, "0: 600").not_negative();
  set.add("--keep-checkpoint-max", &flags.keep_checkpoint_max, "0: all").not_negative();
  set.add("--save-summary-steps", &flags.save_summary_steps, "0: none").not_negative();
  set.add_verbosity();
  set.add("--force-gpu-compatible", &force_gpu_compatible,
          "Host memory that GPUs copy from is always pinned: accepted, and without effect");
}

void require(bool holds, const std::string& sentence) {
  if (!holds) throw muster::UsageError("{}", sentence);
}

void check_input(const Flags& flags) {
  require(flags.image_size >= 8 && flags.image_size <= 40,
          fmt::format("--image-size must be from 8 to 40: {}", flags.image_size));
  require(flags.brightness >= 0,
          fmt::format("--brightness must not be negative: {}", flags.brightness));
  require(
      flags.contrast_lower > 0 && flags.contrast_upper >= flags.contrast_lower,
      fmt::format("--contrast-lower must be positive and --contrast-upper no smaller: {} and {}",
                  flags.contrast_lower, flags.contrast_upper));
  const bool colours = flags.brightness > 0 || flags.contrast_lower != flags.contrast_upper ||
                       flags.contrast_lower != 1;
  require(flags.use_distortion_for_training || !(colours || flags.gpu_augmentation),
          "--brightness, --contrast-* and --gpu-augmentation are distortions: they do not go with "
          "--use-distortion-for-training=false");
  require(!(flags.gpu_augmentation && colours),
          "--gpu-augmentation crops and mirrors only: leave out --brightness and --contrast-*");
}

void check_model(const Flags& flags) {
  require(
      flags.num_layers >= 8 && (flags.num_layers - 2) % 6 == 0,
      fmt::format("--num-layers must be 6n + 2, such as 20, 32, 44 or 56: {}", flags.num_layers));
  require(flags.batch_norm_decay >= 0 && flags.batch_norm_decay < 1,
          fmt::format("--batch-norm-decay must be in [0, 1): {}", flags.batch_norm_decay));
  require(flags.batch_norm_epsilon > 0,
          fmt::format("--batch-norm-epsilon must be positive: {}", flags.batch_norm_epsilon));
}

void check_training(const Flags& flags) {
  const std::pair<const char*, std::int64_t> positive[] = {
      {"--train-steps", flags.train_steps},
      {"--train-batch-size", flags.train_batch_size},
      {"--eval-batch-size", flags.eval_batch_size}};
  for (const auto& [name, value] : positive) {
    require(value > 0, fmt::format("{} must be positive: {}", name, value));
  }
  require(flags.learning_rate > 0,
          fmt::format("--learning-rate must be positive: {}", flags.learning_rate));
  require(flags.momentum >= 0 && flags.momentum < 1,
          fmt::format("--momentum must be in [0, 1): {}", flags.momentum));
  require(flags.weight_decay >= 0,
          fmt::format("--weight-decay must not be negative: {}", flags.weight_decay));
  require(flags.save_checkpoints_steps == 0 || flags.save_checkpoints_secs == 0,
          "--save-checkpoints-steps and --save-checkpoints-secs: give one of them");
  require(flags.eval_every == 0 || flags.save_checkpoints_secs == 0,
          "--eval-every needs checkpoints by steps: leave out --save-checkpoints-secs");
  require(flags.eval_every == 0 || flags.save_checkpoints_steps == 0 ||
              flags.eval_every % flags.save_checkpoints_steps == 0,
          fmt::format("--eval-every={} must be a multiple of --save-checkpoints-steps={}",
                      flags.eval_every, flags.save_checkpoints_steps));
}

void check_layout(const Flags& flags) {
  const std::int64_t gpus = flags.num_gpus.value_or(0);
  require(gpus >= 0, fmt::format("--num-gpus must be 0, for CPU only, or more: {}", gpus));
  require(!(flags.num_gpus && !flags.devices.empty()),
          "--num-gpus and --devices say the same: give one of them");
  require(!(flags.num_gpus == 0 && flags.variable_strategy == "GPU"),
          "--num-gpus=0 leaves no GPU for --variable-strategy=GPU: give CPU, or a GPU");
  require(gpus == 0 || flags.train_batch_size % gpus == 0,
          fmt::format("--train-batch-size={} must be a multiple of --num-gpus={}: each GPU gets as "
                      "many images",
                      flags.train_batch_size, gpus));
  require(gpus == 0 || flags.eval_batch_size % gpus == 0,
          fmt::format("--eval-batch-size={} must be a multiple of --num-gpus={}",
                      flags.eval_batch_size, gpus));
}

}  // namespace

ParsedFlags parse_flags(const std::vector<std::string>& arguments) {
  ParsedFlags parsed;
  bool force_gpu_compatible = true;
  muster::FlagSet set("Trains a residual network on CIFAR-10.");
  add_data_flags(set, parsed.flags);
  add_model_flags(set, parsed.flags);
  add_training_flags(set, parsed.flags);
  add_input_flags(set, parsed.flags);
  add_layout_flags(set, parsed.flags);
  add_run_flags(set, parsed.flags, force_gpu_compatible);
  if (!set.parse(arguments)) parsed.exit_status = 0;
  parsed.flags.hparams = set.hparams();
  return parsed;
}

void check(const Flags& flags) {
  require(!flags.data_dir.empty(),
          "--data-dir is needed: a folder that `muster records write cifar10 --output DIR` made");
  check_model(flags);
  check_training(flags);
  check_input(flags);
  check_layout(flags);
}

}  // namespace cifar10
