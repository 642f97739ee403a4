#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/train/engine/batch_prefetcher.h"
#include "muster/train/engine/input.h"
#include "muster/train/engine/participant.h"
#include "muster/train/engine/run_state.h"

namespace muster {

/// The inputs of the replicas that a process runs, the batches that it took from them for the step
/// that is to be made, and where those of all replicas stand. Belongs to the trainer's thread.
class ReplicaInputs {
 public:
  /// Where `prepare` is given, threads take a batch ahead of each input and do this to it.
  ReplicaInputs(InputFn input_fn, std::int64_t replicas, std::uint64_t seed,
                BatchPrefetcher::Prepare prepare = {});

  /// All inputs resume from where they were saved; without a position, from the beginning, where
  /// `first` batches of each were used before. Closes what is open.
  void resume(const std::optional<RunState>& saved, std::int64_t first);
  /// Opens those of these replicas that are not, after this many used batches, and closes the
  /// others.
  void open(ReplicaRange mine, std::int64_t used);
  /// Whether open() was ever called.
  bool is_open() const { return is_open_; }

  /// Takes a batch from each input that has none in hand. False when none of these replicas has
  /// one.
  bool fetch(ReplicaRange mine);
  /// By replica of the run; nothing for those of others, and at the end of an input.
  std::span<std::optional<Batch>> batches() { return batches_; }
  /// The batches in hand are used, or skipped.
  void use_up();

  /// The `first` that resume() was given.
  std::int64_t first() const { return first_; }
  /// Why positions are not known, if so.
  const std::string& obstacle() const { return obstacle_; }
  /// As they were last told.
  const InputPositions& positions() const { return positions_; }
  void set_positions(InputPositions positions) { positions_ = std::move(positions); }
  /// Those of these replicas as they stand now, after the batches in hand; none of the others.
  InputPositions positions_now(ReplicaRange mine);
  /// Between two steps: asks the inputs of these replicas that have no batch in hand.
  void refresh_positions(ReplicaRange mine);

 private:
  /// Input of one replica of the run.
  struct Input {
    std::unique_ptr<Iterator<Batch>> batches{};
    /// In its place, where batches are prepared.
    std::unique_ptr<BatchPrefetcher> ahead{};
    /// Whether its next batch is in hand, or it is known to have none.
    bool fetched = false;

    bool is_open() const { return batches != nullptr || ahead != nullptr; }
    std::optional<Batch> next() { return ahead != nullptr ? ahead->next() : batches->next(); }
    std::string save() const { return ahead != nullptr ? ahead->save() : batches->save(); }
  };
  std::unique_ptr<Iterator<Batch>> open_one(std::int64_t replica, std::int64_t used) const;
  std::optional<std::string> ask(const Input& input);

  const InputFn input_fn_;
  const std::uint64_t seed_;
  const BatchPrefetcher::Prepare prepare_;
  std::vector<Input> inputs_;
  std::vector<std::optional<Batch>> batches_;
  InputPositions positions_;
  std::string obstacle_;
  std::int64_t first_ = 0;
  bool is_open_ = false;
};

}  // namespace muster
