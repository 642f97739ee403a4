#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/orchestration/tuning/hyperparameter_spec.h"
#include "muster/orchestration/tuning/trial.h"

namespace muster::tuning {

/// Whether trials are ranked by more than one metric.
bool has_several_goals(const HyperparameterSpec& spec);

/// The tags of the metrics that a trial must have beside the first: other goals, then constraints.
std::vector<std::string> other_tags(const HyperparameterSpec& spec);

/// The last value of a metric of a trial: `FOLDER:TAG`, or a tag, of which an evaluation's is
/// preferred. Nothing where it has none. Throws FailedPrecondition where several folders have it
/// and none is named.
std::optional<double> metric_value(const HyperparameterSpec& spec, const Trial& trial,
                                   const std::string& tag);

/// How far a trial with all metrics is outside of the constraints, each by its bound; 0 inside.
double violation_of(const HyperparameterSpec& spec, const Trial& trial);

/// Whether `one` is at least as good as `other` in every goal, and better in one.
bool dominates(const HyperparameterSpec& spec, const Trial& one, const Trial& other);

/// Trials that succeeded within the constraints and that no other dominates; by number.
std::vector<const Trial*> pareto_front(const HyperparameterSpec& spec,
                                       std::span<const Trial> trials);

/// One loss per trial, for a searcher of one goal; the trials have all metrics. Several goals are
/// weighed anew for every trial that is chosen (augmented Chebyshev scalarisation with random
/// weights, after Knowles 2006), so that together the trials cover the front. Outside of the
/// constraints a trial is worse than all inside, the more the further. A function of its arguments.
std::vector<double> scalar_losses(const HyperparameterSpec& spec,
                                  std::span<const Trial* const> trials, std::uint64_t seed,
                                  std::uint64_t number);

}  // namespace muster::tuning
