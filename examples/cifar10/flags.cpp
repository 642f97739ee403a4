#include "examples/cifar10/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <set>

#include "muster/base/error.h"
#include "muster/cli/arguments.h"

namespace cifar10 {
namespace {

/// "--train-steps,--train_steps"
std::string both_spellings(std::string name) {
  std::string other = name;
  std::replace(other.begin() + 2, other.end(), '-', '_');
  return other == name ? name : name + "," + other;
}

/// Adds flags to a command line, each in both spellings.
class FlagTable {
 public:
  explicit FlagTable(CLI::App& app) : app_(app) {}

  template <typename T>
  CLI::Option* value(const std::string& name, T& field, const char* text) {
    auto* option = app_.add_option(both_spellings(name), field, text);
    return is_optional(field) ? option : option->capture_default_str();
  }
  CLI::Option* number(const std::string& name, std::int64_t& field, const char* text) {
    return value(name, field, text)->check(CLI::NonNegativeNumber);
  }
  CLI::Option* yes_or_no(const std::string& name, bool& field, const char* text) {
    const std::string names = both_spellings(name);
    std::istringstream words(names);
    for (std::string word; std::getline(words, word, ',');) switches_.insert(word);
    return app_.add_flag(names, field, text);
  }
  void switch_named(const std::string& name) { switches_.insert(name); }
  const std::set<std::string>& switches() const { return switches_; }
  CLI::App& app() { return app_; }

 private:
  template <typename T>
  static bool is_optional(const T&) {
    return false;
  }
  template <typename T>
  static bool is_optional(const std::optional<T>&) {
    return true;
  }

  CLI::App& app_;
  std::set<std::string> switches_;
};

void add_data_flags(FlagTable& table, Flags& flags) {
  table.value("--data-dir", flags.data_dir,
              "Folder with train, validation and eval.tfrecords, from `muster records write "
              "cifar10`");
  table.app().add_option("--job-dir,--job_dir,--model-dir,--model_dir", flags.job_dir,
                         "Checkpoints, events and exports go here; TF_CONFIG may name it, too");
  table.value("--train-on", flags.train_on, "The images to train on")
      ->check(CLI::IsMember({"train", "train+validation"}));
  table.value("--eval-on", flags.eval_on, "The images to evaluate with")
      ->check(CLI::IsMember({"eval", "validation"}));
}

void add_model_flags(FlagTable& table, Flags& flags) {
  table.value("--num-layers", flags.num_layers, "6n + 2 layers");
  table
      .value("--data-format", flags.data_format,
             "channels_first or channels_last in memory; not given: what is faster")
      ->check(CLI::IsMember({"channels_first", "channels_last"}));
  table.value("--batch-norm-decay", flags.batch_norm_decay, "What stays of a moving statistic");
  table.value("--batch-norm-epsilon", flags.batch_norm_epsilon, "Added to variances");
}

void add_training_flags(FlagTable& table, Flags& flags) {
  table.value("--train-steps", flags.train_steps, "Train up to this global step");
  table.value("--train-batch-size", flags.train_batch_size,
              "Images of a step of this process, split over its towers");
  table.value("--eval-batch-size", flags.eval_batch_size, "Images evaluated at a time");
  table.value("--learning-rate", flags.learning_rate, "Of the first 82 epochs");
  table.value("--momentum", flags.momentum, "Of the optimizer");
  table.value("--weight-decay", flags.weight_decay, "L2, over all trainable variables");
  table.number("--epoch-size", flags.epoch_size,
               "Images of an epoch of the learning rate's schedule: 45000 for the original's; 0: "
               "those there are");
  table.value("--precision", flags.precision, "Of forward and backward")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  table.value("--seed", flags.seed, "The same seed gives the same weights");
}

void add_input_flags(FlagTable& table, Flags& flags) {
  table.yes_or_no("--use-distortion-for-training", flags.use_distortion_for_training,
                  "Crop and mirror training images at random (the default)");
  table.value("--image-size", flags.image_size, "Side of what is cropped from the 32x32 images");
  table.value("--brightness", flags.brightness, "Adds up to this to the pixels of an image");
  table.value("--contrast-lower", flags.contrast_lower, "Smallest factor of contrast");
  table.value("--contrast-upper", flags.contrast_upper, "Largest factor of contrast");
  table.yes_or_no("--whitening", flags.whitening, "Bring each image to mean 0 and variance 1");
  table.yes_or_no("--gpu-augmentation", flags.gpu_augmentation,
                  "Crop and mirror where the model runs, with the same result");
  table.number("--num-input-threads", flags.num_input_threads,
               "Threads that make batches, for each tower; 0: decide");
  table.yes_or_no("--same-batch", flags.same_batch,
                  "Train on the first batch again and again, to see what steps cost without input");
}

void add_layout_flags(FlagTable& table, Flags& flags) {
  table.value("--num-gpus", flags.num_gpus,
              "Towers on as many GPUs; 0: CPU only; not given: 1 where there is one");
  table.value("--devices", flags.devices, "Towers by name in the place of --num-gpus: cuda:0,cpu")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter(',');
  table
      .value("--variable-strategy", flags.variable_strategy,
             "Where variables live: CPU or GPU; not given: with the towers")
      ->check(CLI::IsMember({"CPU", "GPU"}));
  table.switch_named("--is_cpu_ps");
  table.switch_named("--is-cpu-ps");
  table.app()
      .add_flag_function(
          "--is-cpu-ps,--is_cpu_ps",
          [&flags](std::int64_t yes) {
            const std::string wanted = yes > 0 ? "CPU" : "GPU";
            if (!flags.variable_strategy.empty() && flags.variable_strategy != wanted) {
              throw muster::UsageError(
                  "--is_cpu_ps and --variable-strategy={} say different things: leave one out",
                  flags.variable_strategy);
            }
            flags.variable_strategy = wanted;
          },
          "The same as --variable-strategy=CPU; =False as GPU")
      ->trigger_on_parse();
  table.number("--replicas", flags.replicas,
               "Parts of a step of the whole cluster; 0: one for each tower");
  table.app()
      .add_option("--num-intra-threads,--num_intra_threads,--threads-per-replica",
                  flags.num_intra_threads, "CPU threads of a replica; 0: decide")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  table.app()
      .add_option("--num-inter-threads,--num_inter_threads,--concurrent-replicas",
                  flags.num_inter_threads, "Replicas that run at a time on a CPU; 0: decide")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  table.yes_or_no("--deterministic", flags.deterministic,
                  "The same bits every time (the default); =false lets GPU libraries choose");
  table.yes_or_no("--capture-steps", flags.capture_steps,
                  "On a GPU: record a step once and replay it (the default)");
  table.yes_or_no("--fused-kernels", flags.fused_kernels,
                  "Kernels of our own where there are some (the default); =false: libtorch's");
  table.yes_or_no("--log-device-placement", flags.log_device_placement,
                  "Log where towers and variables are");
}

void add_run_flags(FlagTable& table, Flags& flags, bool& force_gpu_compatible) {
  table.yes_or_no("--run-experiment", flags.run_experiment,
                  "Evaluate while training; always so in a cluster");
  table.yes_or_no("--sync", flags.sync, "In a cluster: all make each step together (the default)");
  table.yes_or_no("--collective", flags.collective,
                  "In a cluster: every task has a copy of the variables");
  table.number("--max-staleness", flags.max_staleness,
               "With --sync=false: wait while values would be more updates old; 0: never");
  table.number("--backup-replicas", flags.backup_replicas,
               "With ps tasks: make steps without the last so many replicas");
  table.yes_or_no("--ps-log", flags.ps_log,
                  "Every ps keeps a log, and goes on from it when killed");
  table.value("--num-workers", flags.num_workers,
              "Tasks that train; the cluster says so itself, and this is checked against it");
  table.number("--join-timeout-secs", flags.join_timeout_secs,
               "How long tasks wait for each other before they give up");
  table.number("--eval-every", flags.eval_every,
               "Evaluate at multiples of this step; 0: at each checkpoint");
  table.number("--throttle-secs", flags.throttle_secs, "Evaluate at most this often");
  table.number("--save-checkpoints-steps", flags.save_checkpoints_steps, "0: by time");
  table.number("--save-checkpoints-secs", flags.save_checkpoints_secs, "0: 600");
  table.number("--keep-checkpoint-max", flags.keep_checkpoint_max, "0: all");
  table.number("--save-summary-steps", flags.save_summary_steps, "0: none");
  table.value("--verbosity", flags.verbosity, "DEBUG, INFO, WARN, ERROR or FATAL");
  table.yes_or_no("--force-gpu-compatible", force_gpu_compatible,
                  "Host memory that GPUs copy from is always pinned: accepted, and without effect");
}

bool is_truth(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word == "true" || word == "false";
}

// The originals take "--sync True" as well as "--sync=True" and "--sync".
std::vector<std::string> joined_switches(const std::vector<std::string>& words,
                                         const std::set<std::string>& switches) {
  std::vector<std::string> joined;
  for (const std::string& word : words) {
    if (!joined.empty() && switches.contains(joined.back()) && is_truth(word)) {
      joined.back() += "=" + word;
    } else {
      joined.push_back(word);
    }
  }
  return joined;
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
      {"--eval-batch-size", flags.eval_batch_size},
      {"--join-timeout-secs", flags.join_timeout_secs}};
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
  CLI::App app("Trains a residual network on CIFAR-10.");
  // As with Python's argparse, the last one counts.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  FlagTable table(app);
  add_data_flags(table, parsed.flags);
  add_model_flags(table, parsed.flags);
  add_training_flags(table, parsed.flags);
  add_input_flags(table, parsed.flags);
  add_layout_flags(table, parsed.flags);
  add_run_flags(table, parsed.flags, force_gpu_compatible);
  auto words = joined_switches(arguments, table.switches());
  if (!muster::cli::parse_arguments(app, std::move(words))) {
    parsed.exit_status = 0;
    return parsed;
  }
  muster::cli::set_verbosity(parsed.flags.verbosity);
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
