#include "muster/train/engine/compiled_tower.h"

#include <algorithm>
#include <memory>
#include <variant>

#include "muster/base/log.h"
#include "muster/nn/kernels/operations_scope.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/optim/variables.h"
#include "muster/train/compiler/recorder.h"

namespace muster {
namespace {

using Tensors = std::vector<at::Tensor>;

/// More are compiled anew, so that bits do not depend on which of them came first.
constexpr std::size_t kLayouts = 64;

bool are_tensors(const Features& features) {
  return std::ranges::all_of(features, [](const Features::Column& column) {
    return std::holds_alternative<at::Tensor>(column.second);
  });
}

// Inputs of a recorded step share no memory, and lie alike in every batch of their shapes.
at::Tensor alone(const at::Tensor& column, const Tensors& others) {
  const c10::Storage& storage = column.storage();
  const bool is_shared = std::ranges::any_of(others, [&](const at::Tensor& other) {
    return other.storage().unsafeGetStorageImpl() == storage.unsafeGetStorageImpl();
  });
  const bool is_whole = column.storage_offset() == 0 && column.is_non_overlapping_and_dense() &&
                        storage.nbytes() == column.nbytes();
  return is_whole && !is_shared ? column : column.clone();
}

// The key comes first.
Tensors inputs_of(const Batch& batch, const at::Tensor& key) {
  Tensors inputs{key};
  for (const Features* features : {&batch.features, &batch.labels}) {
    for (const auto& [name, value] : *features) {
      inputs.push_back(alone(std::get<at::Tensor>(value), inputs));
    }
  }
  return inputs;
}

Batch batch_of(const Batch& like, const Tensors& inputs) {
  Batch batch{.row_names = like.row_names};
  auto next = inputs.begin() + 1;
  for (const auto& column : like.features) batch.features.add(column.first, *next++);
  for (const auto& column : like.labels) batch.labels.add(column.first, *next++);
  return batch;
}

std::vector<std::string> names_of(const Batch& batch) {
  std::vector<std::string> names;
  for (const auto& column : batch.features) names.push_back("feature " + column.first);
  for (const auto& column : batch.labels) names.push_back("label " + column.first);
  return names;
}

// Calls `visit` for each tensor of a spec, in an order that its names fix.
template <typename Visit>
void for_each_tensor(EstimatorSpec& spec, const Visit& visit) {
  visit(spec.loss);
  for (auto* entries :
       {&spec.summaries.scalars, &spec.summaries.histograms, &spec.summaries.images}) {
    for (Summaries::Entry& entry : *entries) visit(entry.second);
  }
}

// Values that a step leaves on the host beside tensors have to be made again by every step.
void note_what_is_no_tensor(const EstimatorSpec& spec) {
  if (!spec.summaries.deferred.empty()) {
    compiler::note_obstacle("it has deferred summaries, which are functions");
  }
  if (!spec.predictions.empty() || !spec.metrics.empty() || !spec.export_outputs.empty()) {
    compiler::note_obstacle("it returns predictions, metrics or export outputs in training");
  }
}

Tensors tensors_of(EstimatorSpec& spec) {
  Tensors tensors;
  for_each_tensor(spec, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

EstimatorSpec without_tensors(EstimatorSpec spec) {
  for_each_tensor(spec, [](at::Tensor& tensor) { tensor.reset(); });
  return spec;
}

EstimatorSpec with_tensors(EstimatorSpec spec, const Tensors& tensors) {
  auto next = tensors.begin();
  for_each_tensor(spec, [&](at::Tensor& tensor) { tensor = *next++; });
  return spec;
}

std::vector<const void*> addresses_of(const Tensors& tensors) {
  std::vector<const void*> addresses;
  for (const at::Tensor& tensor : tensors) addresses.push_back(tensor.data_ptr());
  return addresses;
}

std::vector<compiler::Geometry> layout_of(const Tensors& inputs) {
  std::vector<compiler::Geometry> layout;
  for (const at::Tensor& input : inputs) layout.push_back(compiler::geometry_of(input));
  return layout;
}

}  // namespace

std::string CompiledTower::obstacle(const TowerOptions& options, const Model& model) {
  if (!options.recompute.empty()) return "activations are computed again";
  if (options.zero_debias_batch_norm) return "zero_debias_batch_norm has another share every step";
  if (options.precision == ComputeType::kFloat16) {
    return "the scale of float16 is decided every step";
  }
  if (std::ranges::any_of(variables_of(model), &ModuleVariable::sparse)) {
    return "the model has gradients by rows";
  }
  return {};
}

CompiledTower::CompiledTower(Options options, std::vector<at::Tensor> outside)
    : options_(std::move(options)), outside_(std::move(outside)) {}

bool CompiledTower::takes(const Batch& batch) const {
  if (are_tensors(batch.features) && are_tensors(batch.labels)) return true;
  if (options_.says && !std::exchange(said_no_tensors_, true)) {
    log::warning("training steps of batches with strings or ragged columns are not compiled");
  }
  return false;
}

bool CompiledTower::is_known(const Tensors& inputs) const {
  const auto layout = layout_of(inputs);
  return std::ranges::any_of(compiled_->specs,
                             [&](const auto& entry) { return entry.first == layout; });
}

CompiledTower::Compiled& CompiledTower::compiled_for(const Batch& batch, const Tensors& inputs) {
  auto memory = addresses_of(outside_);
  auto columns = names_of(batch);
  const bool holds = compiled_ && compiled_->memory == memory && compiled_->columns == columns;
  const bool is_full = holds && compiled_->step.layouts() == kLayouts && !is_known(inputs);
  if (is_full && options_.says) {
    log::warning(
        "batches have more than {} shapes: steps are compiled again; pad batches to fewer shapes, "
        "or set compile=off",
        kLayouts);
  }
  if (!holds || is_full) {
    compiled_.emplace(
        Compiled{.step = compiler::CompiledStep({.passes = {.padding = kVariableAlignment},
                                                 .name = "a training step",
                                                 .layouts = kLayouts,
                                                 .says = options_.says}),
                 .key = inputs[0],
                 .memory = std::move(memory),
                 .columns = std::move(columns)});
    reported_ = 0;
  }
  return *compiled_;
}

EstimatorSpec CompiledTower::run(const Batch& batch, const at::Tensor& key, const Eager& eager,
                                 const std::function<void()>& seed) {
  const Tensors inputs = inputs_of(batch, key);
  Compiled& compiled = compiled_for(batch, inputs);
  const auto layout = layout_of(inputs);
  auto found = std::ranges::find_if(compiled.specs,
                                    [&](const auto& entry) { return entry.first == layout; });
  std::optional<EstimatorSpec> made;
  const auto step = [&](const Tensors& given) {
    const kernels::OperationsScope scope;
    made = eager(batch_of(batch, given), given[0]);
    note_what_is_no_tensor(*made);
    return tensors_of(*made);
  };
  const Tensors outputs = compiled.step.run(inputs, step, seed);
  write_report();
  if (found == compiled.specs.end()) found = compiled.specs.insert(found, {layout, {}});
  if (made) found->second = without_tensors(*made);
  // One that ran as it is has more than tensors.
  last_was_compiled_ = compiled.step.is_compiled(inputs);
  if (made && !last_was_compiled_) return std::move(*made);
  return with_tensors(found->second, outputs);
}

void CompiledTower::write_report() {
  if (options_.report.empty() || !options_.says || compiled_->step.revision() == reported_) return;
  reported_ = compiled_->step.revision();
  write_file_atomically(options_.report, explain(), /*durable=*/false);
}

// The layout of a key is that of any.
bool CompiledTower::is_compiled(const Batch& batch) const {
  if (!compiled_) return false;
  return compiled_->step.is_compiled(inputs_of(batch, compiled_->key));
}

bool CompiledTower::is_settled(const Batch& batch) const {
  if (!compiled_ || compiled_->columns != names_of(batch)) return false;
  return compiled_->step.is_settled(inputs_of(batch, compiled_->key));
}

std::string CompiledTower::explain() const { return compiled_ ? compiled_->step.explain() : ""; }

}  // namespace muster
