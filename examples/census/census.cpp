// Who earns more than 50,000 dollars a year? The Census Income data with a wide and deep model, or
// with others to compare it with. README.md shows how to get the files and what to expect.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/muster.h"
#include "muster/platform/api.h"

namespace {

using muster::Batch;
using muster::ColumnSet;
using muster::ColumnUse;
using muster::CsvField;
using muster::FeatureColumn;
using muster::Features;
using muster::Mode;
using muster::OptimizerChoice;
using muster::Path;
using muster::Record;

struct Flags {
  std::vector<std::string> train_files, eval_files, predict_files;
  std::string synthetic;
  std::size_t synthetic_people = muster::SyntheticCensusOptions().train;
  bool evaluate_only = false;
  /// What TensorBoard shows of all these.
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
};

// ----------------------------------------------------------------------------------- the columns

/// What the models read. A column that two of them hold is made once, so that its ids are too.
struct Columns {
  muster::FeatureColumnList wide{};
  muster::FeatureColumnList deep{};
  muster::FeatureColumnList trees{};
};

/// A number, 0 where there is none: as a blank of the training files is read, so a request without
/// it is answered alike.
FeatureColumn plain_number(const char* key) {
  return muster::numeric_column(key, {.default_value = {0}});
}

/// A column of numbers as the census sample has it, or moved and scaled for a network: sums of
/// money, most of them 0 and some 99,999, by their logarithms.
FeatureColumn number(const char* key, const Flags& flags, double middle, double scale) {
  if (flags.numbers == "raw") return plain_number(key);
  const bool money = std::string_view(key).starts_with("capital_");
  return muster::numeric_column(key,
                                {.default_value = {0}, .normalizer = [=](const at::Tensor& values) {
                                   const at::Tensor x = values.to(at::kFloat);
                                   return (money ? x.log1p() : x).sub(middle).div(scale);
                                 }});
}

Columns make_columns(const Flags& flags) {
  const auto words = [](const char* key, std::vector<std::string> vocabulary) {
    return muster::categorical_column_with_vocabulary_list(key, std::move(vocabulary));
  };
  const auto gender = words("gender", {"Female", "Male"});
  const auto race =
      words("race", {"Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"});
  const auto education =
      words("education", {"Bachelors", "HS-grad", "11th", "Masters", "9th", "Some-college",
                          "Assoc-acdm", "Assoc-voc", "7th-8th", "Doctorate", "Prof-school",
                          "5th-6th", "10th", "1st-4th", "Preschool", "12th"});
  const auto marital_status =
      words("marital_status", {"Married-civ-spouse", "Divorced", "Married-spouse-absent",
                               "Never-married", "Separated", "Married-AF-spouse", "Widowed"});
  const auto relationship = words("relationship", {"Husband", "Not-in-family", "Wife", "Own-child",
                                                   "Unmarried", "Other-relative"});
  const auto workclass =
      words("workclass", {"Self-emp-not-inc", "Private", "State-gov", "Federal-gov", "Local-gov",
                          "?", "Self-emp-inc", "Without-pay", "Never-worked"});
  // Words that are not known beforehand.
  const auto occupation = muster::categorical_column_with_hash_bucket("occupation", 100);
  const auto native_country = muster::categorical_column_with_hash_bucket("native_country", 100);

  const auto age = plain_number("age");
  const auto age_buckets = muster::bucketized_column(age, {18, 25, 30, 35, 40, 45, 50, 55, 60, 65});

  Columns columns;
  columns.wide = {muster::crossed_column({"education", "occupation"}, 10'000),
                  muster::crossed_column({age_buckets, "race", "occupation"}, 1'000'000),
                  muster::crossed_column({"native_country", "occupation"}, 10'000),
                  gender,
                  native_country,
                  education,
                  occupation,
                  workclass,
                  marital_status,
                  relationship,
                  age_buckets};
  columns.deep = {muster::indicator_column(workclass),
                  muster::indicator_column(education),
                  muster::indicator_column(marital_status),
                  muster::indicator_column(gender),
                  muster::indicator_column(relationship),
                  muster::indicator_column(race),
                  muster::embedding_column(native_country, flags.embedding_size),
                  muster::embedding_column(occupation, flags.embedding_size),
                  number("age", flags, 38.6, 13.6),
                  number("education_num", flags, 10.1, 2.6),
                  number("capital_gain", flags, 0.7, 2.4),
                  number("capital_loss", flags, 0.4, 1.6),
                  number("hours_per_week", flags, 40.4, 12.3)};
  if (flags.numbers == "bucketized") {
    const auto buckets = [](const char* key, std::vector<float> boundaries) {
      return muster::bucketized_column(plain_number(key), std::move(boundaries));
    };
    // Tenths of the people in four fifths of the training file; of money, of those who have any.
    columns.deep.insert(
        columns.deep.end(),
        {age_buckets, buckets("capital_gain", {1, 2329, 3103, 4064, 5013, 7298, 7688, 8614, 15024}),
         buckets("capital_loss", {1, 1504, 1617, 1740, 1876, 1887, 1902, 1977, 2002, 2339}),
         buckets("hours_per_week", {24, 35, 40, 48, 55})});
  }
  columns.trees = {age, plain_number("education_num"), plain_number("capital_gain"),
                   plain_number("capital_loss"), plain_number("hours_per_week")};
  for (const auto& column : {gender, race, education, marital_status, relationship, workclass,
                             occupation, native_country}) {
    columns.trees.push_back(muster::indicator_column(column));
  }
  return columns;
}

// ------------------------------------------------------------------------------------- the input

/// What may stand before the first person: the comment of the original test file, a header, an
/// empty line.
bool is_preamble(std::string_view line) {
  const auto first = line.find_first_not_of(" \t\"");
  if (first == std::string_view::npos || line[first] == '|') return true;
  return line.substr(first, line.find_first_of(" \t\",", first) - first) == "age";
}

/// A file's people, one a row; each file may have a header of its own.
std::unique_ptr<muster::RecordSource> open_people(const Path& path) {
  std::uint64_t skipped = 0;
  const auto lines = muster::open_text_lines(path);
  for (Record line; lines->next(line) && is_preamble(line.bytes);) ++skipped;
  return muster::open_csv(path, {.skip_header_lines = skipped, .skip_empty_lines = true});
}

/// The fields of a row; models do not read how many people a row stands for.
std::vector<CsvField> people_fields(const CsvField& label = CsvField::string("income_bracket")) {
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
          label};
}

/// Turns rows of CSV into a batch. Blanks around words are stripped, so files with and without one
/// behind the comma are the same.
class PeopleParser {
 public:
  PeopleParser(std::vector<Path> files, std::vector<std::shared_ptr<const ColumnSet>> columns,
               Mode mode)
      : files_(std::move(files)),
        mode_(mode),
        columns_(std::move(columns)),
        decoder_(std::make_shared<const muster::CsvDecoder>(
            mode == Mode::kPredict ? people_fields(CsvField::string("income_bracket", ""))
                                   : people_fields(),
            muster::CsvOptions{.strip_blanks = true})) {}

  Batch operator()(std::vector<Record> people) const {
    std::vector<std::string_view> rows;
    rows.reserve(people.size());
    for (const auto& person : people) rows.push_back(person.bytes);
    auto columns =
        decoder_->decode(rows, [&](std::size_t row) { return where_is(people[row].bytes); });
    at::Tensor labels = label_ids(columns.strings("income_bracket"), people);

    using Owner = std::pair<std::vector<Record>, std::shared_ptr<const muster::CsvDecoder>>;
    auto owner = std::make_shared<const Owner>(std::move(people), decoder_);
    Features features = muster::to_features(std::move(columns), std::move(owner));
    features.remove("income_bracket");
    for (const auto& set : columns_) features = set->prepare(std::move(features));
    return muster::make_batch(std::move(features), std::move(labels));
  }

 private:
  at::Tensor label_ids(std::span<const std::string_view> words,
                       const std::vector<Record>& people) const {
    std::vector<std::int64_t> ids;
    ids.reserve(words.size());
    for (std::string_view word : words) {
      // People to predict may come without one.
      if (word.empty() && mode_ == Mode::kPredict) {
        ids.push_back(0);
        continue;
      }
      // Labels of the original test file end in a full stop.
      if (word.ends_with('.')) word.remove_suffix(1);
      if (word != "<=50K" && word != ">50K") {
        throw muster::InvalidArgument("{}: income_bracket is '{}', not <=50K or >50K",
                                      where_is(people[ids.size()].bytes), word);
      }
      ids.push_back(word == ">50K" ? 1 : 0);
    }
    const auto rows = static_cast<std::int64_t>(ids.size());
    return muster::tensor_of(std::move(ids), {rows, 1});
  }

  /// Rows carry no line numbers through shuffles and batches; one that is wrong is looked for.
  std::string where_is(std::string_view row) const {
    for (const Path& file : files_) {
      const auto source = open_people(file);
      for (Record person; source->next(person);) {
        if (person.bytes == row) return source->where(source->position() - 1);
      }
    }
    return "a row that its file no longer has";
  }

  std::vector<Path> files_;
  Mode mode_;
  std::vector<std::shared_ptr<const ColumnSet>> columns_;
  std::shared_ptr<const muster::CsvDecoder> decoder_;
};

std::int64_t count_people(const std::vector<Path>& files) {
  std::int64_t count = 0;
  for (auto people = muster::from_files(files, open_people).iterate(); people->next();) ++count;
  return count;
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
        .map(PeopleParser(files, sets, in.mode()), {.parallelism = flags.num_parallel_calls})
        .prefetch(flags.prefetch_buffer_size);
  };
}

// ------------------------------------------------------------------------------------ the models

std::vector<std::int64_t> hidden_units(const Flags& flags) {
  if (flags.num_layers == 0) return {100, 70, 50, 25};
  std::vector<std::int64_t> units;
  for (std::int64_t i = 0; i < flags.num_layers; ++i) {
    const double size = static_cast<double>(flags.first_layer_size) *
                        std::pow(flags.scale_factor, static_cast<double>(i));
    units.push_back(std::max<std::int64_t>(2, static_cast<std::int64_t>(size)));
  }
  return units;
}

muster::Estimator make_estimator(const Flags& flags, const Columns& columns,
                                 const muster::RunConfig& config, std::int64_t max_steps) {
  // By name it has the estimator's own rate.
  OptimizerChoice dnn = "Adagrad";
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
    return muster::dnn_classifier({.hidden_units = hidden_units(flags),
                                   .feature_columns = columns.deep,
                                   .optimizer = dnn,
                                   .dropout = flags.dropout},
                                  config);
  }
  return muster::dnn_linear_combined_classifier({.linear_columns = columns.wide,
                                                 .dnn_columns = columns.deep,
                                                 .dnn_optimizer = dnn,
                                                 .hidden_units = hidden_units(flags),
                                                 .dropout = flags.dropout},
                                                config);
}

/// The same with gradients of both optimizers shortened together.
muster::Estimator with_clipping(const muster::Estimator& estimator, double global_norm) {
  muster::EstimatorOptions options = estimator.options();
  options.clip = {.global_norm = global_norm};
  return {std::move(options), estimator.config()};
}

std::vector<std::shared_ptr<const ColumnSet>> column_sets(const Flags& flags,
                                                          const Columns& columns) {
  std::vector<std::shared_ptr<const ColumnSet>> sets;
  if (flags.model.starts_with("wide")) {
    sets.push_back(std::make_shared<const ColumnSet>(columns.wide, ColumnUse::kLinear));
  }
  if (flags.model.ends_with("deep")) {
    sets.push_back(std::make_shared<const ColumnSet>(columns.deep, ColumnUse::kInputLayer));
  }
  return sets;
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

muster::RunConfig run_config(const Flags& flags) {
  auto config = muster::run_config(flags.run);
  if (flags.save_checkpoints_steps > 0) {
    config.checkpoints.save_checkpoints_steps = flags.save_checkpoints_steps;
  }
  // Of the arithmetic, and not to be seen in model and optimizers.
  config.cluster.terms = {{"--train-batch-size", std::to_string(flags.train_batch_size)},
                          {"--numbers", flags.numbers}};
  config.hparams = flags.hparams;
  return config;
}

bool trains(const Flags& flags) { return !flags.evaluate_only && flags.predict_files.empty(); }

/// Where a schedule ends: at --train-steps, or after --num-epochs of all replicas.
std::int64_t last_step(const Flags& flags, const std::vector<Path>& train_files,
                       const muster::RunConfig& config) {
  if (flags.schedule == "constant" || flags.train_steps > 0) return flags.train_steps;
  if (train_files.empty()) return 1;  // Nothing is trained.
  const double examples =
      static_cast<double>(flags.num_epochs) * static_cast<double>(count_people(train_files));
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
  if (trains(flags)) train_files = muster::files_of(flags.train_files, "--train-files");
  const auto eval_files = muster::files_of(flags.eval_files, "--eval-files");
  const auto predict_files = muster::files_of(flags.predict_files, "--predict-files");
  const Columns columns = make_columns(flags);
  const auto config = run_config(flags);
  auto estimator = make_estimator(flags, columns, config, last_step(flags, train_files, config));
  if (flags.clip_global_norm > 0) estimator = with_clipping(estimator, flags.clip_global_norm);

  const auto sets = column_sets(flags, columns);
  if (flags.evaluate_only) {
    muster::EvaluateOptions options{.name = "census-eval"};
    if (flags.eval_steps > 0) options.steps = flags.eval_steps;
    print_metrics(estimator.evaluate(input(eval_files, flags, sets), options));
  }
  if (!predict_files.empty()) predict(estimator, input(predict_files, flags, sets));
  if (!trains(flags)) return EXIT_SUCCESS;
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

// ------------------------------------------------------------------------------------- the flags

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

/// What is to be done needs its files.
void check_files(const Flags& flags) {
  if (!flags.synthetic.empty()) {
    if (!trains(flags) || !flags.train_files.empty() || !flags.eval_files.empty()) {
      throw muster::UsageError(
          "--synthetic makes the files that are trained on: give neither other files nor "
          "--evaluate-only");
    }
    return;
  }
  if (trains(flags) && flags.train_files.empty()) {
    throw muster::UsageError(
        "--train-files is required, unless --synthetic, --evaluate-only or --predict-files is "
        "given");
  }
  if ((trains(flags) || flags.evaluate_only) && flags.eval_files.empty()) {
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
  const bool ends = flags.train_steps > 0 || flags.num_epochs > 0 || !trains(flags);
  if (!ends && flags.schedule != "constant") {
    throw muster::UsageError("--schedule {} needs an end: give --train-steps or --num-epochs",
                             flags.schedule);
  }
  if (!ends && flags.model != "boosted_trees") {
    muster::log::warning(
        "neither --train-steps nor --num-epochs is given: training goes on until it is stopped");
  }
}

int parse_and_run(int argc, char** argv) {
  Flags flags;
  muster::FlagSet set(
      "Trains models that tell from Census data who earns more than 50,000 dollars.");
  add_data_flags(set, flags);
  add_model_flags(set, flags);
  add_training_flags(set, flags);
  add_run_flags(set, flags);
  if (!set.parse(argc, argv)) return EXIT_SUCCESS;
  if (flags.setting == "best") {
    flags = best_setting();
    set.parse(argc, argv);
  }
  flags.hparams = set.hparams();
  check(flags);
  if (!flags.synthetic.empty()) make_people(flags);
  return run(flags);
}

}  // namespace

int main(int argc, char** argv) {
  muster::register_stores();
  return muster::run_main(argc, argv, parse_and_run);
}
