// A language model of bytes: text files to packed records, training with warm-up and cosine,
// perplexity, sampling, and an export that is served. docs/guides/language_model.md walks through
// it.
#include <fmt/core.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/muster.h"
#include "muster/nn/api.h"
#include "muster/nn/zoo.h"
#include "muster/platform/api.h"

namespace {

using muster::Path;

// A token is a byte, or the end of a document.
constexpr std::int64_t kEndOfDocument = 256;
constexpr std::int64_t kTokens = 257;
constexpr const char* kFeature = "input_ids";

// -------------------------------------------------------------------------------------- the model

struct Shape {
  std::int64_t hidden = 128;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t key_value_heads = 0;
  std::int64_t mlp_units = 352;
  std::int64_t length = 128;
};

void add_shape_flags(muster::FlagSet& set, Shape& shape) {
  set.add("--hidden", &shape.hidden, "Numbers of a token's hidden state").positive();
  set.add("--layers", &shape.layers).positive();
  set.add("--heads", &shape.heads, "Heads of queries").positive();
  set.add("--key-value-heads", &shape.key_value_heads, "0: as many as --heads").not_negative();
  set.add("--mlp-units", &shape.mlp_units, "Units of each feed-forward layer").positive();
  set.add("--length", &shape.length, "Tokens that the model sees at a time").positive();
}

muster::zoo::LlamaOptions model_options(const Shape& shape) {
  return {.vocabulary = kTokens,
          .positions = shape.length,
          .hidden = shape.hidden,
          .layers = shape.layers,
          .heads = shape.heads,
          .key_value_heads = shape.key_value_heads,
          .mlp_units = shape.mlp_units,
          .tied_embeddings = true,
          .input_ids = kFeature};
}

// The shape of a run's model stands beside its checkpoints, as flags.
Path shape_file(const Path& job_dir) { return job_dir / "shape.flags"; }

void save_shape(const Path& job_dir, Shape shape) {
  muster::FlagSet set("");
  add_shape_flags(set, shape);
  std::string words;
  for (const auto& [name, value] : set.values()) words += fmt::format("--{}={}\n", name, value);
  muster::file_system_for(job_dir).create_directories(job_dir);
  muster::write_file_atomically(shape_file(job_dir), words);
}

Shape saved_shape(const Path& job_dir) {
  std::vector<std::string> words;
  const std::string text = muster::read_file(shape_file(job_dir));
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
  }
  Shape shape;
  muster::FlagSet set("");
  add_shape_flags(set, shape);
  set.parse(words);
  return shape;
}

// ------------------------------------------------------------------------------------ the records

/// Writes documents one after the other, cut into rows of equal length wherever a row is full: no
/// row has padding. A row begins with the last token of the row before, so every token is predicted
/// once.
class PackedRows {
 public:
  PackedRows(const Path& folder, std::int64_t length, std::uint64_t eval_every)
      : tokens_of_a_row_(static_cast<std::size_t>(length) + 1),
        eval_every_(eval_every),
        train_(folder / "train.tfrecords", {.write_index = true}),
        eval_(folder / "eval.tfrecords", {.write_index = true}) {}

  void add_document(std::string_view text) {
    for (const char byte : text) add_token(static_cast<unsigned char>(byte));
    add_token(kEndOfDocument);
  }
  /// The rest, which fills no row, is dropped.
  void close() {
    train_.close();
    eval_.close();
  }
  std::uint64_t train_rows() const { return train_.records(); }
  std::uint64_t eval_rows() const { return eval_.records(); }

 private:
  void add_token(std::int64_t token) {
    row_.push_back(token);
    if (row_.size() < tokens_of_a_row_) return;
    const auto number = train_rows() + eval_rows() + 1;
    auto& file = number % eval_every_ == 0 ? eval_ : train_;
    file.append(muster::ExampleBuilder().add_ints(kFeature, row_).serialize());
    row_ = {row_.back()};
  }

  std::size_t tokens_of_a_row_;
  std::uint64_t eval_every_;
  std::vector<std::int64_t> row_{};
  muster::RecordWriter train_, eval_;
};

int write_records(int argc, char** argv) {
  std::vector<std::string> text;
  std::string output = "records";
  Shape shape;
  std::uint64_t eval_every = 10;
  muster::FlagSet set("Packs text files into records of equal length.");
  set.add("--text", &text, "Text files or patterns; each is a document").required();
  set.add("--output", &output, "Folder of train.tfrecords and eval.tfrecords");
  set.add("--length", &shape.length, "Tokens of a row, beside the first one").positive();
  set.add("--eval-every", &eval_every, "One of so many rows is for evaluation").positive();
  if (!set.parse(argc, argv)) return 0;
  muster::file_system_for(output).create_directories(output);
  PackedRows rows(output, shape.length, eval_every);
  const auto files = muster::files_of(text, "--text");
  for (const Path& file : files) rows.add_document(muster::read_file(file));
  rows.close();
  fmt::print("{}: {} documents, {} rows to train on, {} to evaluate\n", output, files.size(),
             rows.train_rows(), rows.eval_rows());
  return 0;
}

// -------------------------------------------------------------------------------------- training

struct TrainFlags {
  std::string records = "records";
  std::int64_t train_steps = 1000;
  std::size_t batch_size = 16;
  double learning_rate = 0.002;
  std::int64_t warm_up_steps = 100;
  double weight_decay = 0.1;
  bool shuffle = true;
  std::int64_t eval_steps = 500;
  Shape shape{};
  muster::RunFlags run{};
};

muster::InputFn rows_of(const Path& file, const TrainFlags& flags) {
  const auto parse = muster::parse_examples(
      {{kFeature, muster::FixedLen{muster::FeatureKind::kInt64, {flags.shape.length + 1}}}});
  return
      [=, batch_size = flags.batch_size, shuffle = flags.shuffle](const muster::InputContext& in) {
        auto rows = muster::tfrecords({file});
        if (in.mode() != muster::Mode::kTrain) return rows.batch(batch_size, parse);
        if (shuffle) rows = rows.global_shuffle(in.seed());
        return rows.shard(in).repeat().batch(batch_size, parse).prefetch(2);
      };
}

muster::EstimatorOptions estimator_options(const TrainFlags& flags) {
  const auto rate = muster::warm_up(
      muster::cosine(
          {.initial = flags.learning_rate, .decay_steps = flags.train_steps, .alpha = 0.1}),
      {.steps = flags.warm_up_steps});
  const auto adamw = [&](double weight_decay) {
    return muster::adamw({.learning_rate = rate, .beta2 = 0.95, .weight_decay = weight_decay});
  };
  return {.model = [shape = flags.shape] { return muster::zoo::llama(model_options(shape)); },
          // Scales of normalisations do not decay.
          .optimizer = {{"", adamw(flags.weight_decay)}, {"*norm/weight", adamw(0)}},
          .clip = {.global_norm = 1.0}};
}

// A server is given rows of --length tokens, of which the mask has those that are text. Two rows
// that are not alike tell so.
muster::ServingInput serving_input(const Shape& shape) {
  const auto ids = torch::arange(2 * shape.length).remainder(kTokens).view({2, shape.length});
  auto mask = torch::ones_like(ids);
  mask[1].slice(0, (shape.length + 1) / 2).zero_();
  return muster::raw_serving_input({{kFeature, ids}, {"attention_mask", mask}});
}

int train(int argc, char** argv) {
  TrainFlags flags;
  muster::FlagSet set("Trains a language model on packed records.");
  set.add("--records", &flags.records, "Folder of train.tfrecords and eval.tfrecords");
  set.add("--train-steps", &flags.train_steps, "Train up to this step").positive();
  set.add("--train-batch-size", &flags.batch_size, "Rows of a step, of each replica").positive();
  set.add("--learning-rate", &flags.learning_rate, "Highest rate of AdamW").positive();
  set.add("--warm-up-steps", &flags.warm_up_steps, "Steps in which the rate rises").positive();
  set.add("--weight-decay", &flags.weight_decay).not_negative();
  set.add("--shuffle", &flags.shuffle, "False: rows come in the order of the file");
  set.add("--eval-every", &flags.eval_steps, "Evaluate at multiples of this step").positive();
  add_shape_flags(set, flags.shape);
  muster::add_run_flags(set, flags.run);
  if (!set.parse(argc, argv)) return 0;

  auto config = muster::run_config(flags.run);
  config.hparams = set.hparams();
  config.cluster.terms = {{"--train-batch-size", std::to_string(flags.batch_size)}};
  auto& checkpoints = config.checkpoints;
  if (!checkpoints.save_checkpoints_steps && !checkpoints.save_checkpoints_secs) {
    checkpoints.save_checkpoints_steps = flags.eval_steps;
  }
  if (config.is_chief()) save_shape(config.model_dir, flags.shape);
  muster::Estimator estimator(estimator_options(flags), std::move(config));
  const Path records = flags.records;
  const auto result = muster::train_and_evaluate(
      estimator,
      {.input_fn = rows_of(records / "train.tfrecords", flags), .max_steps = flags.train_steps},
      {.input_fn = rows_of(records / "eval.tfrecords", flags),
       .steps = {},
       .exporters = {muster::final_exporter("next_token", serving_input(flags.shape))},
       .every_steps = flags.eval_steps});
  for (const auto& [name, value] : result.metrics) fmt::print("{} = {:.4g}\n", name, value);
  return 0;
}

// -------------------------------------------------------------------------------------- sampling

// Bytes that are not printable ASCII as "\xc3": a model of bytes may write any.
std::string printable(const std::vector<std::int64_t>& bytes) {
  std::string text;
  for (const auto byte : bytes) {
    if (byte == '\n' || byte == '\t' || (byte >= ' ' && byte <= '~')) {
      text.push_back(static_cast<char>(byte));
    } else {
      text += fmt::format("\\x{:02x}", byte);
    }
  }
  return text;
}

int sample(int argc, char** argv) {
  std::string job_dir;
  std::string prompt = "The ";
  muster::zoo::GenerateOptions options{.tokens = 200, .end_token = kEndOfDocument};
  muster::FlagSet set("Continues a text with a model that was trained.");
  set.add("--job-dir", &job_dir, "Folder of the run").required();
  set.add("--prompt", &prompt, "Text to continue; empty: a new document");
  set.add("--tokens", &options.tokens, "Most bytes to add").positive();
  set.add("--temperature", &options.sampling.temperature, "0: always the likeliest token")
      .not_negative();
  set.add("--top-k", &options.sampling.top_k, "Only the likeliest tokens; 0: all").not_negative();
  set.add("--seed", &options.seed, "The same seed gives the same text");
  if (!set.parse(argc, argv)) return 0;

  const auto model = muster::zoo::llama(model_options(saved_shape(job_dir)));
  // A checkpoint has the optimizer's slots too.
  const auto report = muster::load_weights(*model, job_dir, {.strict = false});
  if (!report.missing.empty()) throw muster::NotFound("{}: {}", job_dir, report.text());
  model->eval();
  std::vector<std::int64_t> tokens{kEndOfDocument};
  for (const char byte : prompt) tokens.push_back(static_cast<unsigned char>(byte));
  fmt::print("{}{}\n", prompt, printable(muster::zoo::generate(*model, tokens, options)));
  return 0;
}

// ------------------------------------------------------------------------------------------- size

int size(int argc, char** argv) {
  Shape shape;
  muster::FlagSet set("Counts the parameters of a shape, without memory for them.");
  add_shape_flags(set, shape);
  if (!set.parse(argc, argv)) return 0;
  auto options = model_options(shape);
  options.device = torch::kMeta;
  const auto model = muster::zoo::llama(options);
  std::int64_t all = 0;
  std::map<std::string, std::int64_t> parts;
  for (const auto& variable : model->named_parameters()) {
    const std::string& name = variable.key();
    const bool is_block = name.find(".layers.") != std::string::npos;
    const std::string part = name.find("norm") != std::string::npos        ? "norms"
                             : name.find("self_attn") != std::string::npos ? "attention"
                             : is_block                                    ? "feed-forward"
                                                                           : "tokens";
    parts[part] += variable.value().numel();
    all += variable.value().numel();
  }
  for (const auto& [part, count] : parts) fmt::print("{:<13}{:>15}\n", part, count);
  fmt::print("{:<13}{:>15}\n", "all", all);
  const double values = static_cast<double>(all) * sizeof(float) / (1024.0 * 1024.0);
  fmt::print("float32 values {:.1f} MiB; with gradients and AdamW's slots {:.1f} MiB\n", values,
             4 * values);
  return 0;
}

int run(int argc, char** argv) {
  const std::map<std::string_view, int (*)(int, char**)> commands{
      {"records", write_records}, {"train", train}, {"sample", sample}, {"size", size}};
  const auto command = commands.find(argc > 1 ? argv[1] : "");
  if (command == commands.end()) {
    throw muster::UsageError("give a command: language_model records, train, sample or size");
  }
  return command->second(argc - 1, argv + 1);
}

}  // namespace

int main(int argc, char** argv) {
  muster::register_stores();
  return muster::run_main(argc, argv, run);
}
