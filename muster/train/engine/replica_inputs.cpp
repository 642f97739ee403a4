#include "muster/train/engine/replica_inputs.h"

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster {

ReplicaInputs::ReplicaInputs(InputFn input_fn, std::int64_t replicas, std::uint64_t seed,
                             BatchPrefetcher::Prepare prepare)
    : input_fn_(std::move(input_fn)),
      seed_(seed),
      prepare_(std::move(prepare)),
      inputs_(static_cast<std::size_t>(replicas)),
      batches_(inputs_.size()),
      positions_(inputs_.size()) {}

void ReplicaInputs::resume(const std::optional<RunState>& saved, std::int64_t first) {
  for (Input& input : inputs_) input = {};
  batches_.assign(inputs_.size(), std::nullopt);
  positions_.assign(inputs_.size(), std::nullopt);
  first_ = first;
  if (!saved) return;
  if (saved->inputs.size() == inputs_.size()) {
    positions_ = saved->inputs;
    obstacle_ = saved->input_obstacle;
  } else {
    log::warning("the input restarts: its position was saved for {} replicas", saved->replicas);
  }
}

std::unique_ptr<Iterator<Batch>> ReplicaInputs::open_one(std::int64_t replica,
                                                         std::int64_t used) const {
  const InputContext context(Mode::kTrain, static_cast<std::int64_t>(inputs_.size()), replica,
                             seed_);
  const auto& position = positions_[static_cast<std::size_t>(replica)];
  try {
    const Dataset<Batch> dataset = input_fn_(context);
    if (position) return dataset.iterate(*position);
    auto input = dataset.iterate();
    // Another process may have read so far: what it took is read again.
    for (std::int64_t batch = first_; batch < used; ++batch) input->next();
    return input;
  } catch (Error& error) {
    error.add_context(fmt::format("opening the input of replica {}", replica));
    throw;
  }
}

void ReplicaInputs::open(ReplicaRange mine, std::int64_t used) {
  is_open_ = true;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto replica = static_cast<std::int64_t>(i);
    if (!mine.contains(replica)) {
      inputs_[i] = {};
      batches_[i].reset();
    } else if (!inputs_[i].is_open()) {
      auto input = open_one(replica, used);
      if (prepare_) {
        inputs_[i].ahead = std::make_unique<BatchPrefetcher>(std::move(input), prepare_);
      } else {
        inputs_[i].batches = std::move(input);
      }
    }
  }
}

bool ReplicaInputs::fetch(ReplicaRange mine) {
  bool any = false;
  for (std::int64_t r = mine.first; r < mine.last; ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (!inputs_[i].fetched) {
      batches_[i] = inputs_[i].next();
      inputs_[i].fetched = true;
    }
    any |= batches_[i].has_value();
  }
  return any;
}

void ReplicaInputs::use_up() {
  for (Input& input : inputs_) input.fetched = false;
}

// Asks an input that cannot tell only once.
std::optional<std::string> ReplicaInputs::ask(const Input& input) {
  if (!obstacle_.empty()) return std::nullopt;
  try {
    return input.save();
  } catch (const FailedPrecondition& error) {
    obstacle_ = error.what();
    return std::nullopt;
  }
}

InputPositions ReplicaInputs::positions_now(ReplicaRange mine) {
  InputPositions now(positions_.size());
  for (std::int64_t r = mine.first; r < mine.last; ++r) {
    const auto i = static_cast<std::size_t>(r);
    now[i] = ask(inputs_[i]);
  }
  return now;
}

void ReplicaInputs::refresh_positions(ReplicaRange mine) {
  for (std::int64_t r = mine.first; r < mine.last; ++r) {
    const auto i = static_cast<std::size_t>(r);
    const bool has_unused_batch = inputs_[i].fetched && batches_[i];
    if (inputs_[i].is_open() && !has_unused_batch) positions_[i] = ask(inputs_[i]);
  }
}

}  // namespace muster
