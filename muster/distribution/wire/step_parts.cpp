#include "muster/distribution/wire/step_parts_internal.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::internal {

StepNotes notes_of(Participant& participant) {
  return {.positions = participant.positions(),
          .buffers = participant.buffers(),
          .flat_size = participant.run_variables().flat().numel(),
          .tables = table_shapes(participant.run_variables())};
}

StepGradients step_gradients(std::int64_t step, std::int64_t sequence, const PartialSums& parts,
                             const StepNotes& notes, const ReplicaRange& replicas,
                             std::span<const FlatRange> dense) {
  StepGradients message{.step = step,
                        .sequence = sequence,
                        .replicas = replicas,
                        .present = parts.present,
                        .examples = parts.examples};
  for (std::int64_t r = replicas.first; r < replicas.last; ++r) {
    const auto index = static_cast<std::size_t>(r);
    const at::Tensor& loss = parts.losses[index];
    message.reports.push_back(
        {.loss = loss.defined() ? std::optional(loss.item<double>()) : std::nullopt,
         .position = notes.positions[index]});
  }
  for (const auto& [part, sum] : parts.sums) {
    TreePart& one = message.sums.emplace_back(TreePart{.first = part.first, .last = part.second});
    if (sum) one.sum = {sum->flat, {dense.begin(), dense.end()}, sum->rows};
  }
  if (replicas.contains(0)) message.buffers.tensors = notes.buffers;
  return message;
}

namespace {

void add_tensors(VariableTensors& into, VariableTensors&& from) {
  Gradients sum{std::move(into.flat), std::move(into.rows)};
  add_gradients(sum, {std::move(from.flat), std::move(from.rows)});
  into.flat = std::move(sum.flat);
  into.rows = std::move(sum.rows);
}

template <typename T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  std::ranges::move(from, std::back_inserter(to));
}

}  // namespace

StepGradients merge_steps(StepGradients left, StepGradients right, std::int64_t replicas) {
  StepGradients merged{.step = left.step,
                       .sequence = left.sequence,
                       .replicas = {left.replicas.first, right.replicas.last},
                       .present = left.present + right.present,
                       .examples = left.examples + right.examples,
                       .reports = std::move(left.reports),
                       .batches = std::move(left.batches)};
  append(merged.reports, std::move(right.reports));
  append(merged.batches, std::move(right.batches));
  TreeSum<VariableTensors> sum(replicas, add_tensors);
  for (StepGradients* one : {&left, &right}) {
    for (TreePart& part : one->sums) {
      sum.report_part({part.first, part.last}, std::move(part.sum));
    }
    if (!one->buffers.tensors.empty()) merged.buffers = std::move(one->buffers);
  }
  for (auto& [part, value] : sum.take_parts()) {
    // All of it is sent on.
    if (value) value->ranges = {{0, value->flat.numel()}};
    merged.sums.push_back({part.first, part.second, std::move(value)});
  }
  return merged;
}

namespace {

// There is one for every replica of the run in each step, so they share their memory, and are made
// without a dispatch.
at::Tensor scalar_in(const at::Tensor& all, std::size_t place, double value) {
  all.data_ptr<float>()[place] = static_cast<float>(value);
  auto scalar = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(all.storage()), all.key_set(),
                                                         all.dtype());
  scalar.unsafeGetTensorImpl()->set_sizes_contiguous(at::IntArrayRef());
  scalar.unsafeGetTensorImpl()->set_storage_offset(static_cast<std::int64_t>(place));
  return scalar;
}

}  // namespace

ReceivedStep received_step(StepGradients message, std::int64_t replicas) {
  ReceivedStep received{.replicas = message.replicas};
  received.parts.present = message.present;
  received.parts.examples = message.examples;
  received.parts.losses.resize(static_cast<std::size_t>(replicas));
  const at::Tensor losses = at::empty({replicas}, at::kFloat);
  auto next = static_cast<std::size_t>(message.replicas.first);
  received.positions.reserve(message.reports.size());
  for (ReplicaReport& report : message.reports) {
    if (report.loss) received.parts.losses[next] = scalar_in(losses, next, *report.loss);
    received.positions.push_back(std::move(report.position));
    ++next;
  }
  for (TreePart& part : message.sums) {
    auto& sum = received.parts.sums[{part.first, part.last}];
    if (part.sum) sum = Gradients{std::move(part.sum->flat), std::move(part.sum->rows)};
  }
  received.buffers = std::move(message.buffers.tensors);
  return received;
}

void check_turn(const StepGradients& message, std::int64_t step, std::int64_t sequence) {
  if (message.step == step && message.sequence == sequence) return;
  throw DataLoss("a message is about step {} (number {}), and step {} (number {}) is being made",
                 message.step, message.sequence, step, sequence);
}

std::string batch_difference(const std::string& task, const PartialSums& parts,
                             const std::string& other, const PartialSums& of_other) {
  if (parts.present == 0 || of_other.present == 0) return {};
  if (parts.examples * of_other.present == of_other.examples * parts.present) return {};
  return fmt::format(
      "a batch has {:g} examples in {} and {:g} in {}: the weights are not those of one batch "
      "size; "
      "give all tasks the same, unless their inputs are smaller than a batch",
      static_cast<double>(parts.examples) / static_cast<double>(parts.present), task,
      static_cast<double>(of_other.examples) / static_cast<double>(of_other.present), other);
}

void take_positions(ReceivedStep& from, InputPositions& positions) {
  std::ranges::move(from.positions, positions.begin() + from.replicas.first);
}

PartialSums add_parts(std::int64_t replicas, PartialSums own, std::vector<ReceivedStep> received) {
  PartialSums total{.present = own.present,
                    .examples = own.examples,
                    .losses = std::move(own.losses),
                    .spec = std::move(own.spec)};
  total.losses.resize(static_cast<std::size_t>(replicas));
  TreeSum<Gradients> sum(replicas,
                         [](Gradients& into, Gradients&& from) { add_gradients(into, from); });
  const auto report = [&](TreeSum<Gradients>::Parts& parts) {
    for (auto& [part, value] : parts) sum.report_part(part, std::move(value));
  };
  report(own.sums);
  for (ReceivedStep& other : received) {
    total.present += other.parts.present;
    total.examples += other.parts.examples;
    for (std::int64_t r = other.replicas.first; r < other.replicas.last; ++r) {
      const auto index = static_cast<std::size_t>(r);
      total.losses[index] = std::move(other.parts.losses[index]);
    }
    report(other.parts.sums);
  }
  total.sums = sum.take_parts();
  return total;
}

}  // namespace muster::internal
