#include <torch/types.h>

#include <algorithm>
#include <exception>

#include "muster/base/error.h"
#include "muster/run/evaluation_dry_run_internal.h"
#include "muster/train/estimator/evaluation_model.h"

namespace muster::internal {
namespace {

// Enough to see names and shapes; the time that more would take is the evaluation's.
constexpr std::int64_t kRehearsedExamples = 2;

Batch first_examples(const InputFn& input_fn, std::uint64_t seed) {
  const auto batch = input_fn(InputContext(Mode::kEval, 1, 0, seed)).iterate()->next();
  if (!batch) throw InvalidArgument("evaluate: the input had no batch");
  return batch->slice(0, std::min(kRehearsedExamples, batch->size()));
}

}  // namespace

EvaluationRehearsal dry_run_evaluation(const Estimator& estimator, const EvalSpec& spec) {
  try {
    const std::uint64_t seed = estimator.config().seed();
    EvaluationRehearsal seen{.examples = first_examples(spec.input_fn, seed)};
    // A model that learns otherwise than by gradients cannot be evaluated before it has learnt.
    if (estimator.options().learner == nullptr) {
      const torch::NoGradGuard no_grad;
      EvaluationModel model(estimator.options(), estimator.config());
      const auto result = model.call(seen.examples, Mode::kEval);
      for (const auto& [name, value] : result.metrics.compute()) seen.metrics.push_back(name);
      seen.metrics.emplace_back("loss");
    }
    return seen;
  } catch (Error& error) {
    error.add_context("looking at the evaluation before training begins");
    throw;
  }
}

void rehearse_exports(const Estimator& estimator, const EvalSpec& spec) {
  for (const auto& exporter : spec.exporters) {
    try {
      exporter->rehearse(estimator);
    } catch (const std::exception&) {
      const Description why = describe(std::current_exception());
      throw Error(why.code,
                  fmt::format("nothing is trained, since the exporter {} cannot export the model: "
                              "{}; to train all the same, leave the exporter out",
                              exporter->name(), why.message));
    }
  }
}

}  // namespace muster::internal
