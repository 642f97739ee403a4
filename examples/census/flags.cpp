#include "examples/census/flags.h"

#include <algorithm>
#include <cmath>

namespace census {
namespace {

/// The best setting for a network that was found on a part of the training file.
Flags best_setting() {
  Flags flags;
  flags.num_epochs = 15;
  flags.train_batch_size = 256;
  flags.eval_batch_size = 1000;
  flags.numbers = "bucketized";
  flags.dnn_learning_rate = 0.02;
  flags.dropout = 0.2;
  flags.schedule = "cosine";
  return flags;
}

void add_data_flags(muster::FlagSet& set, Flags& flags) {
  set.add("--train-files", &flags.train_files, "CSV files or patterns");
  set.add("--eval-files", &flags.eval_files, "CSV files or patterns");
  set.add("--synthetic", &flags.synthetic,
          "Write made-up people to adult.data.csv and adult.test.csv in this folder, and train on "
          "them: the best AUC that a model can have on them is known");
  set.add("--synthetic-people", &flags.synthetic_people,
          "Rows of --synthetic to train on; half as many are evaluated on")
      .positive();
  set.add("--evaluate-only", &flags.evaluate_only,
          "Train nothing: evaluate the newest checkpoint of --job-dir on --eval-files");
  set.add("--predict-files", &flags.predict_files,
          "Train nothing: print what the newest checkpoint of --job-dir says of the people of "
          "these CSV files, a line of JSON each; their income_bracket may be empty");
  set.add("--export-format", &flags.export_format,
          "How the exported model is fed: named tensors (JSON), CSV rows or tf.Examples; "
          "JSON unless given")
      .one_of({"JSON", "CSV", "EXAMPLE"});
  set.add("--train-batch-size", &flags.train_batch_size, "People of a step, of each replica")
      .positive();
  set.add("--eval-batch-size", &flags.eval_batch_size, "People evaluated at a time").positive();
  set.add("--eval-steps", &flags.eval_steps, "Batches of an evaluation; 0: all of the files")
      .not_negative();
  set.add("--num-parallel-calls", &flags.num_parallel_calls,
          "Threads that parse; 0: a processor each")
      .not_negative();
  set.add("--prefetch-buffer-size,--prefetch_buffer_size", &flags.prefetch_buffer_size,
          "Batches made ahead")
      .positive();
}

void add_model_flags(muster::FlagSet& set, Flags& flags) {
  set.add("--model", &flags.model, "What is trained")
      .one_of({"wide", "deep", "wide_deep", "boosted_trees"});
  set.add("--setting", &flags.setting, "Where the other flags' defaults come from")
      .one_of({"seed", "best"});
  set.add("--embedding-size", &flags.embedding_size, "Numbers an embedded word becomes").positive();
  set.add("--first-layer-size", &flags.first_layer_size, "Units of the first hidden layer")
      .positive();
  set.add("--num-layers", &flags.num_layers, "Hidden layers").not_negative();
  set.add("--scale-factor", &flags.scale_factor, "Units of a layer over those of the one before")
      .positive();
  set.add("--numbers", &flags.numbers, "How the network reads numbers")
      .one_of({"raw", "scaled", "bucketized"});
  set.add("--dropout", &flags.dropout, "The part of the units that a step drops")
      .between(0.0, 0.99);
  set.add("--num-trees", &flags.num_trees, "Of boosted_trees").positive();
}

void add_training_flags(muster::FlagSet& set, Flags& flags) {
  set.add("--num-epochs", &flags.num_epochs, "Passes over the training files");
  set.add("--train-steps", &flags.train_steps, "Train up to this global step").not_negative();
  set.add("--dnn-learning-rate", &flags.dnn_learning_rate, "0: the estimator's own").not_negative();
  set.add("--schedule", &flags.schedule, "Of --dnn-learning-rate").one_of({"constant", "cosine"});
  set.add("--clip-global-norm", &flags.clip_global_norm,
          "Gradients longer than this, all together, are shortened to it; 0: none are")
      .not_negative();
}

void add_run_flags(muster::FlagSet& set, Flags& flags) {
  muster::add_run_flags(set, flags.run);
  set.add("--save-checkpoints-steps", &flags.save_checkpoints_steps, "0: every ten minutes")
      .not_negative();
}

/// Throws UsageError where the flags ask for something whose files are not given.
void check_files(const Flags& flags) {
  if (!flags.synthetic.empty()) {
    if (!flags.trains() || !flags.train_files.empty() || !flags.eval_files.empty()) {
      throw muster::UsageError(
          "--synthetic makes the files that are trained on: give neither other files nor "
          "--evaluate-only");
    }
    return;
  }
  if (flags.trains() && flags.train_files.empty()) {
    throw muster::UsageError(
        "--train-files is required, unless --synthetic, --evaluate-only or --predict-files is "
        "given");
  }
  if ((flags.trains() || flags.evaluate_only) && flags.eval_files.empty()) {
    throw muster::UsageError("--eval-files is required");
  }
}

void check(const Flags& flags) {
  check_files(flags);
  if (!flags.export_format.empty() && flags.model == "boosted_trees") {
    throw muster::UsageError("--export-format: boosted trees cannot be exported; leave it out");
  }
  if (flags.clip_global_norm > 0 && flags.model == "boosted_trees") {
    throw muster::UsageError("--clip-global-norm: boosted trees have no gradients; leave it out");
  }
  const bool ends = flags.train_steps > 0 || flags.num_epochs > 0 || !flags.trains();
  if (!ends && flags.schedule != "constant") {
    throw muster::UsageError("--schedule {} needs an end: give --train-steps or --num-epochs",
                             flags.schedule);
  }
  if (!ends && flags.model != "boosted_trees") {
    muster::log::warning(
        "neither --train-steps nor --num-epochs is given: training goes on until it is stopped");
  }
}

}  // namespace

std::vector<std::int64_t> Flags::hidden_units() const {
  if (num_layers == 0) return {100, 70, 50, 25};
  std::vector<std::int64_t> units;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    const double size =
        static_cast<double>(first_layer_size) * std::pow(scale_factor, static_cast<double>(i));
    units.push_back(std::max<std::int64_t>(2, static_cast<std::int64_t>(size)));
  }
  return units;
}

muster::RunConfig Flags::run_config() const {
  auto config = muster::run_config(run);
  if (save_checkpoints_steps > 0) {
    config.checkpoints.save_checkpoints_steps = save_checkpoints_steps;
  }
  // Part of the arithmetic, but not visible in model and optimizers.
  config.cluster.terms = {{"--train-batch-size", std::to_string(train_batch_size)},
                          {"--numbers", numbers}};
  config.hparams = hparams;
  return config;
}

std::optional<Flags> parse_flags(int argc, char** argv) {
  Flags flags;
  muster::FlagSet set(
      "Trains models that tell from Census data who earns more than 50,000 dollars.");
  add_data_flags(set, flags);
  add_model_flags(set, flags);
  add_training_flags(set, flags);
  add_run_flags(set, flags);
  if (!set.parse(argc, argv)) return std::nullopt;
  if (flags.setting == "best") {
    flags = best_setting();
    set.parse(argc, argv);
  }
  flags.hparams = set.hparams();
  check(flags);
  return flags;
}

}  // namespace census
