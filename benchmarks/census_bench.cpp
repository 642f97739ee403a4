// How fast the wide and deep model of the Census example trains, beside PyTorch in the same run.
#include <fmt/core.h>
#include <torch/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/report.h"
#include "benchmarks/training_rate.h"
#include "muster/base/log.h"
#include "muster/data/features/census_columns_internal.h"
#include "muster/data/features/column_set.h"
#include "muster/train/api.h"

namespace muster {
namespace {

constexpr std::size_t kBatches = 64;

/// Where the work on words is done.
enum class Input {
  /// Before the clock starts: ids lie in memory, as on PyTorch's side.
  kIds,
  /// Within the run: words become ids in the thread that makes batches ahead.
  kWords,
};

class CensusTraining {
 public:
  CensusTraining(std::size_t batch_size, std::int64_t cross_size)
      : columns_(internal::census_columns(8, cross_size)),
        wide_(std::make_shared<const ColumnSet>(columns_.wide, ColumnUse::kLinear)),
        deep_(std::make_shared<const ColumnSet>(columns_.deep, ColumnUse::kInputLayer)) {
    for (std::size_t i = 0; i < kBatches; ++i) {
      const auto rows = static_cast<std::int64_t>(batch_size);
      words_.push_back(make_batch(internal::census_features(batch_size, i),
                                  torch::randint(0, 2, {rows, 1}).to(torch::kFloat)));
      ids_.push_back(prepare(words_.back()));
    }
  }

  Estimator estimator(const RunConfig& config) const {
    return dnn_linear_combined_classifier({.linear_columns = columns_.wide,
                                           .dnn_columns = columns_.deep,
                                           .hidden_units = {100, 70, 48, 34}},
                                          config);
  }

  InputFn input_fn(Input input) const {
    return [this, input](const InputContext&) {
      if (input == Input::kIds) return cycle(ids_);
      return cycle(words_)
          .map([this](Batch batch) { return prepare(std::move(batch)); })
          .prefetch(4);
    };
  }

 private:
  Batch prepare(Batch batch) const {
    batch.features = deep_->prepare(wide_->prepare(std::move(batch.features)));
    return batch;
  }
  static Dataset<Batch> cycle(const std::vector<Batch>& batches) {
    return generate([batches](std::uint64_t i) { return std::optional(batches[i % kBatches]); });
  }

  internal::CensusColumns columns_;
  std::shared_ptr<const ColumnSet> wide_, deep_;
  std::vector<Batch> words_, ids_;
};

bench::MakeEstimator make(const CensusTraining& training) {
  return [&training](const RunConfig& config) { return training.estimator(config); };
}

void measure_training(bench::Report& report, std::size_t batch_size, std::int64_t steps,
                      double at_least, double aim) {
  const auto from_ids = fmt::format("wide and deep, batch {}, over PyTorch", batch_size);
  const auto from_words =
      fmt::format("wide and deep, batch {}, from words, over PyTorch from ids", batch_size);
  if (!report.wants(from_ids) && !report.wants(from_words)) return;
  const CensusTraining training(batch_size, 1'000'000);
  const auto anchor =
      bench::anchor_examples_per_second(fmt::format("census_torch.py --batch {}", batch_size));
  const auto add = [&](const std::string& name, Input input) {
    if (!report.wants(name)) return;
    const double examples =
        bench::best_steps_per_second(make(training), training.input_fn(input), steps) *
        static_cast<double>(batch_size);
    report.add({.name = name,
                .value = examples,
                .unit = "examples/s",
                .limit = anchor,
                .at_least = at_least,
                .aim = aim});
  };
  add(from_ids, Input::kIds);
  add(from_words, Input::kWords);
}

// In turns, so that a busy machine slows both.
void measure_table_size(bench::Report& report) {
  const std::string name = "steps with a cross of 1,000,000 buckets, over one of 1,000";
  if (!report.wants(name)) return;
  const CensusTraining large(40, 1'000'000);
  const CensusTraining small(40, 1'000);
  constexpr std::int64_t kSteps = 4'000;
  const auto rate_of = [](const CensusTraining& training) {
    return bench::steps_per_second_of_run(make(training), training.input_fn(Input::kIds), 1,
                                          kSteps);
  };
  std::vector<double> of_large, of_small;
  for (int i = 0; i < bench::sized(5, 1); ++i) {
    of_large.push_back(rate_of(large));
    of_small.push_back(rate_of(small));
  }
  report.add({.name = name,
              .value = bench::median(of_large),
              .unit = "steps/s",
              .limit = bench::median(of_small),
              .at_least = 0.9});
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::log::set_level(muster::log::Level::kError);
  muster::bench::Report report(argc, argv);
  torch::manual_seed(1);
  muster::measure_training(report, 40, 8'000, 3, 8);
  muster::measure_training(report, 1024, 600, 1.5, 3);
  muster::measure_table_size(report);
  return report.finish();
}
