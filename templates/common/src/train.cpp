#include "train.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "data.h"

namespace {

/// TODO: what is to become of predictions. Here they are counted by class.
void predict(muster::Estimator& estimator, const muster::InputFn& rows) {
  auto predictions = estimator.predict(rows, {.predict_keys = {"class_ids"}});
  std::map<std::int64_t, std::int64_t> counts;
  while (const auto row = predictions.next()) {
    ++counts[row->tensor("class_ids").item<std::int64_t>()];
  }
  for (const auto& [id, count] : counts) fmt::print("predicted class {}: {} rows\n", id, count);
}

}  // namespace

muster::EvaluationResult train(const Options& options) {
  const auto train_files = muster::files_of(options.train_files, "--train-files");
  const auto eval_files = muster::files_of(options.eval_files, "--eval-files");
  const auto test_files = muster::files_of(options.test_files, "--test-files");

  const auto config = muster::run_config(options.run);
  const double rows_of_a_step =
      static_cast<double>(options.train_batch_size) * config.batches_per_step();
  const double rows = options.num_epochs * static_cast<double>(count_rows(train_files));
  const auto max_steps = std::max<std::int64_t>(1, std::llround(rows / rows_of_a_step));

  auto estimator = make_estimator(options.model, max_steps, config);
  muster::EvalSpec eval_spec{.input_fn = input(eval_files, options.eval_batch_size), .steps = {}};
  if (options.export_path.empty()) {
    eval_spec.exporters.push_back(muster::final_exporter("@TARGET@", serving_input()));
  }
  const auto result = muster::train_and_evaluate(
      estimator, {.input_fn = input(train_files, options.train_batch_size), .max_steps = max_steps},
      eval_spec);
  if (result.metrics.empty()) return {};  // Another task of the cluster does the rest.
  if (!options.export_path.empty()) {
    muster::export_saved_model(estimator, options.export_path, serving_input());
  }
  predict(estimator, input(test_files, options.eval_batch_size));
  return result.metrics;
}
