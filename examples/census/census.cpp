// Who earns more than 50,000 dollars a year? The Census Income data with a wide and deep model, or
// with others to compare it with. README.md shows how to get the files and what to expect.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "examples/census/columns.h"
#include "muster/muster.h"
#include "muster/platform/api.h"

namespace {

using census::Columns;
using census::Flags;
using muster::ColumnSet;
using muster::CsvField;
using muster::Mode;
using muster::Path;

// ------------------------------------------------------------------------------------- the input

/// A line that may come before the first person: the comment of the original test file, a header,
/// an empty line.
bool is_preamble(std::string_view line) {
  const auto first = line.find_first_not_of(" \t\"");
  if (first == std::string_view::npos || line[first] == '|') return true;
  return line.substr(first, line.find_first_of(" \t\",", first) - first) == "age";
}

/// A file's people, one a row; each file may have a header of its own.
std::unique_ptr<muster::RecordSource> open_people(const Path& path) {
  std::uint64_t skipped = 0;
  const auto lines = muster::open_text_lines(path);
  for (muster::Record line; lines->next(line) && is_preamble(line.bytes);) ++skipped;
  return muster::open_csv(path, {.skip_header_lines = skipped, .skip_empty_lines = true});
}

/// The fields of a row; models do not read how many people a row stands for.
std::vector<CsvField> people_fields() {
  return {CsvField::int32("age", 0),
          CsvField::string("workclass", ""),
          CsvField::ignored("fnlwgt"),
          CsvField::string("education", ""),
          CsvField::int32("education_num", 0),
          CsvField::string("marital_status", ""),
          CsvField::string("occupation", ""),
          CsvField::string("relationship", ""),
          CsvField::string("race", ""),
          CsvField::string("gender", ""),
          CsvField::int32("capital_gain", 0),
          CsvField::int32("capital_loss", 0),
          CsvField::int32("hours_per_week", 0),
          CsvField::string("native_country", ""),
          CsvField::string("income_bracket")};
}

/// Turns rows of CSV into a batch. Blanks around words are stripped, so files with and without one
/// after the comma are the same; labels of the original test file end in a full stop.
auto parse_people(const std::vector<Path>& files,
                  std::vector<std::shared_ptr<const ColumnSet>> sets, Mode mode) {
  return muster::parse_csv({.fields = people_fields(),
                            .csv = {.strip_blanks = true},
                            .label = {.field = "income_bracket",
                                      .vocabulary = {"<=50K", ">50K"},
                                      .ending = ".",
                                      .may_be_blank = mode == Mode::kPredict},
                            .columns = std::move(sets),
                            .name = muster::find_row_in(files, open_people)});
}

/// The people of these files, in batches, with the ids and numbers of `sets` made beside training.
muster::InputFn input(const std::vector<Path>& files, const Flags& flags,
                      std::vector<std::shared_ptr<const ColumnSet>> sets) {
  return [=](const muster::InputContext& in) {
    auto people = muster::from_files(files, open_people);
    std::size_t batch_size = flags.eval_batch_size;
    if (in.mode() == Mode::kTrain) {
      batch_size = flags.train_batch_size;
      people = people.shuffle(10 * batch_size, in.seed()).shard(in);
      // Trees read their input once, and all of it at every step.
      if (flags.model != "boosted_trees") {
        people = flags.num_epochs > 0 ? people.repeat(flags.num_epochs) : people.repeat();
      }
    }
    return people.batch(batch_size)
        .map(parse_people(files, sets, in.mode()), {.parallelism = flags.num_parallel_calls})
        .prefetch(flags.prefetch_buffer_size);
  };
}

// ------------------------------------------------------------------------------------ the models

muster::Estimator make_estimator(const Flags& flags, const Columns& columns,
                                 const muster::RunConfig& config, std::int64_t max_steps) {
  // By name it has the estimator's own rate.
  muster::OptimizerChoice dnn = "Adagrad";
  if (flags.dnn_learning_rate > 0) {
    muster::LearningRate rate = flags.dnn_learning_rate;
    if (flags.schedule == "cosine") {
      rate = muster::cosine({.initial = flags.dnn_learning_rate, .decay_steps = max_steps});
    }
    dnn = muster::adagrad({rate});
  }
  if (flags.model == "boosted_trees") {
    return muster::boosted_trees_classifier({.feature_columns = columns.trees,
                                             .n_trees = flags.num_trees,
                                             .l2_regularization = 1,
                                             .min_node_weight = 1,
                                             .quantile_sketch_epsilon = 1.0 / 256,
                                             .loss_reduction = muster::Reduction::kSum},
                                            config);
  }
  if (flags.model == "wide") {
    return muster::linear_classifier({.feature_columns = columns.wide}, config);
  }
  if (flags.model == "deep") {
    return muster::dnn_classifier({.hidden_units = flags.hidden_units(),
                                   .feature_columns = columns.deep,
                                   .optimizer = dnn,
                                   .dropout = flags.dropout},
                                  config);
  }
  return muster::dnn_linear_combined_classifier({.linear_columns = columns.wide,
                                                 .dnn_columns = columns.deep,
                                                 .dnn_optimizer = dnn,
                                                 .hidden_units = flags.hidden_units(),
                                                 .dropout = flags.dropout},
                                                config);
}

// ------------------------------------------------------------------------------------ the export

/// How a server hands people to the exported model; nothing for trees, which have no graph.
std::optional<muster::ServingInput> serving_input(const Flags& flags, const Columns& columns) {
  if (flags.model == "boosted_trees") return std::nullopt;
  if (flags.export_format == "CSV") {
    return muster::csv_serving_input({.fields = people_fields(), .csv = {.strip_blanks = true}});
  }
  // Every model takes a whole person, whatever it reads of it.
  muster::FeatureColumnList all = columns.wide;
  all.insert(all.end(), columns.deep.begin(), columns.deep.end());
  if (flags.export_format == "EXAMPLE") {
    return muster::example_serving_input(all, "example_proto");
  }
  return muster::json_serving_input(all);
}

// --------------------------------------------------------------------------------------- the run

/// Where a schedule ends: at --train-steps, or after --num-epochs of all replicas.
std::int64_t last_step(const Flags& flags, const std::vector<Path>& train_files,
                       const muster::RunConfig& config) {
  if (flags.schedule == "constant" || flags.train_steps > 0) return flags.train_steps;
  if (train_files.empty()) return 1;  // Nothing is trained.
  double people = 0;
  for (auto all = muster::from_files(train_files, open_people).iterate(); all->next();) ++people;
  const double examples = static_cast<double>(flags.num_epochs) * people;
  const double step_examples =
      static_cast<double>(flags.train_batch_size) * config.batches_per_step();
  return std::max<std::int64_t>(1, std::llround(std::ceil(examples / step_examples)));
}

void print_metrics(const muster::EvaluationResult& metrics) {
  for (const auto& [name, value] : metrics) fmt::print("{} = {:g}\n", name, value);
}

/// A line of JSON for each person: what is predicted, and how likely it is that they earn more.
void predict(muster::Estimator& estimator, const muster::InputFn& people) {
  auto predictions = estimator.predict(
      people, {.predict_keys = {"class_ids", "probabilities"}, .yield_single_examples = false});
  while (const auto batch = predictions.next()) {
    const at::Tensor classes = batch->tensor("class_ids").contiguous();
    const at::Tensor probabilities = batch->tensor("probabilities").contiguous();
    for (std::int64_t row = 0; row < batch->batch_size(); ++row) {
      fmt::print("{{\"income_bracket\": \"{}\", \"probability\": {:.6g}}}\n",
                 classes.data_ptr<std::int64_t>()[row] == 1 ? ">50K" : "<=50K",
                 probabilities.data_ptr<float>()[2 * row + 1]);
    }
  }
}

/// People to train and evaluate on, for those who have no files.
void make_people(Flags& flags) {
  const auto files = muster::write_synthetic_census(
      flags.synthetic, {.train = flags.synthetic_people,
                        .test = std::max<std::size_t>(flags.synthetic_people / 2, 1)});
  for (const muster::SyntheticCensusFile& file : {files.train, files.test}) {
    fmt::print("{}: {} rows, best possible AUC {:.4f}\n", file.path.string(), file.rows,
               file.best_auc);
  }
  flags.train_files = {files.train.path.string()};
  flags.eval_files = {files.test.path.string()};
}

int run(const Flags& flags) {
  std::vector<Path> train_files;
  if (flags.trains()) train_files = muster::files_of(flags.train_files, "--train-files");
  const auto eval_files = muster::files_of(flags.eval_files, "--eval-files");
  const auto predict_files = muster::files_of(flags.predict_files, "--predict-files");
  const Columns columns = census::make_columns(flags);
  const auto config = flags.run_config();
  auto estimator = make_estimator(flags, columns, config, last_step(flags, train_files, config));
  if (flags.clip_global_norm > 0) {
    // Gradients of both optimizers are clipped together.
    muster::EstimatorOptions options = estimator.options();
    options.clip = {.global_norm = flags.clip_global_norm};
    estimator = {std::move(options), config};
  }

  const auto sets = census::column_sets(flags, columns);
  if (flags.evaluate_only) {
    muster::EvaluateOptions options{.name = "census-eval"};
    if (flags.eval_steps > 0) options.steps = flags.eval_steps;
    print_metrics(estimator.evaluate(input(eval_files, flags, sets), options));
  }
  if (!predict_files.empty()) predict(estimator, input(predict_files, flags, sets));
  if (!flags.trains()) return EXIT_SUCCESS;
  muster::TrainSpec train_spec{.input_fn = input(train_files, flags, sets)};
  if (flags.train_steps > 0) train_spec.max_steps = flags.train_steps;
  muster::EvalSpec eval_spec{
      .input_fn = input(eval_files, flags, sets), .steps = {}, .name = "census-eval"};
  if (flags.eval_steps > 0) eval_spec.steps = flags.eval_steps;
  if (const auto receiver = serving_input(flags, columns)) {
    eval_spec.exporters.push_back(muster::final_exporter("census", *receiver));
  }
  const auto result = muster::train_and_evaluate(estimator, train_spec, eval_spec);
  print_metrics(result.metrics);
  return EXIT_SUCCESS;
}

int parse_and_run(int argc, char** argv) {
  auto flags = census::parse_flags(argc, argv);
  if (!flags) return EXIT_SUCCESS;
  if (!flags->synthetic.empty()) make_people(*flags);
  return run(*flags);
}

}  // namespace

int main(int argc, char** argv) {
  muster::register_stores();
  return muster::run_main(argc, argv, parse_and_run);
}
