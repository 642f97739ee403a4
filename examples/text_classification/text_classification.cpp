// Reviews as word pieces: a small BERT learns which of them praise, is exported, and answers ids.
// docs/guides/text.md shows it.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "muster/muster.h"
#include "muster/nn/zoo.h"

namespace {

constexpr std::int64_t kLength = 32;

struct Flags {
  std::string reviews = "reviews";
  std::string job_dir = "reviews-run";
  std::string encode;
  std::string find_rate;
  std::int64_t steps = 1000;
};

/// "1<tab>The soup was good.": a label and a text.
muster::EncodedText parse(const muster::TextEncoder& encoder, std::string_view line) {
  const auto tab = line.find('\t');
  if (tab != 1 || (line[0] != '0' && line[0] != '1')) {
    throw muster::InvalidArgument("a line has 0 or 1, a tab and a text: \"{}\"", line);
  }
  return encoder.encode(line.substr(2), line[0] - '0');
}

muster::Batch batch_of(const std::vector<muster::EncodedText>& texts) {
  return muster::to_batch(muster::padded_texts(texts, {.length = kLength}));
}

muster::InputFn reviews(const std::string& file, const muster::TextEncoder& encoder) {
  return [=](const muster::InputContext& in) {
    auto lines = muster::text_lines({file}).shard(in);
    if (in.mode() == muster::Mode::kTrain) lines = lines.shuffle(10'000, in.seed()).repeat();
    const auto encode = [encoder](const muster::Record& line) {
      return parse(encoder, line.bytes);
    };
    return lines.map(encode, {.parallelism = 2}).batch(32).map(batch_of).prefetch(2);
  };
}

std::shared_ptr<muster::zoo::Bert> small_bert(std::int64_t vocabulary) {
  return muster::zoo::bert({.vocabulary = vocabulary,
                            .hidden = 64,
                            .layers = 2,
                            .heads = 4,
                            .mlp_units = 128,
                            .positions = kLength,
                            .dropout = 0.05,
                            .num_classes = 1});
}

/// Instances of a request, one a line.
void print_instances(const muster::TextEncoder& encoder, const std::string& file) {
  const auto print = [](const std::vector<std::int64_t>& values, const char* name) {
    fmt::print("\"{}\": [{}]", name, fmt::join(values, ", "));
  };
  const auto lines = muster::open_text_lines(file);
  muster::Record line;
  while (lines->next(line)) {
    const auto text = muster::padded_texts({encoder.encode(line.bytes)}, {.length = kLength});
    fmt::print("{{");
    print(text.ids, "input_ids");
    fmt::print(", ");
    print(text.mask, "attention_mask");
    fmt::print(", ");
    print(text.token_types, "token_type_ids");
    fmt::print("}}\n");
  }
}

int run(int argc, char** argv) {
  Flags flags;
  muster::FlagSet set("Learns which reviews praise.");
  set.add("--reviews", &flags.reviews, "Folder with train.tsv, eval.tsv and vocab.txt");
  set.add("--job-dir", &flags.job_dir, "Checkpoints and the export go here");
  set.add("--train-steps", &flags.steps, "Train up to this step").positive();
  set.add("--encode", &flags.encode, "Print the lines of this file as instances, and do no more");
  set.add("--find-learning-rate", &flags.find_rate,
          "Draw the loss over the learning rate to this SVG file, and do no more");
  if (!set.parse(argc, argv)) return 0;

  const muster::TextEncoder encoder(muster::word_piece_tokenizer(flags.reviews + "/vocab.txt"),
                                    {.max_length = kLength});
  if (!flags.encode.empty()) {
    print_instances(encoder, flags.encode);
    return 0;
  }
  const std::int64_t vocabulary = encoder.tokenizer().size();
  const muster::EstimatorOptions options{.model = [vocabulary] { return small_bert(vocabulary); },
                                         .head = muster::binary_class_head(),
                                         .optimizer = muster::adam({.learning_rate = 0.001})};
  const auto config = muster::RunConfig::from_env().with_model_dir(flags.job_dir);
  const muster::InputFn training = reviews(flags.reviews + "/train.tsv", encoder);
  if (!flags.find_rate.empty()) {
    const auto finding = muster::find_learning_rate(options, config, training);
    muster::write_file_atomically(flags.find_rate, finding.svg());
    fmt::print("the loss falls fastest at a learning rate of {:.2g}\n", finding.steepest);
    return 0;
  }
  muster::Estimator estimator(options, config);
  const auto example = batch_of({encoder.encode("The soup was good."), encoder.encode("Bad!")});
  const auto result =
      muster::train_and_evaluate(estimator, {training, flags.steps},
                                 {.input_fn = reviews(flags.reviews + "/eval.tsv", encoder),
                                  .exporters = {muster::final_exporter(
                                      "reviews", muster::raw_serving_input(example.features))}});
  for (const auto& [name, value] : result.metrics) fmt::print("{} = {:.4g}\n", name, value);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, run); }
