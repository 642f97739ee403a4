#pragma once

#include <cstdint>
#include <functional>

#include "muster/base/random.h"
#include "muster/data/dataset/dataset.h"
#include "muster/data/features/batch.h"
#include "muster/nn/model/mode.h"

namespace muster {

/// Argument of an input function: which part of the data it is to read, and for what.
class InputContext {
 public:
  InputContext(Mode mode, std::int64_t replicas, std::int64_t replica, std::uint64_t seed)
      : mode_(mode), replicas_(replicas), replica_(replica), seed_(seed) {}

  Mode mode() const { return mode_; }
  /// Dataset::shard(context) takes part `shard_index` of `num_shards`. Evaluation and prediction
  /// read all.
  std::uint64_t num_shards() const { return static_cast<std::uint64_t>(replicas_); }
  std::uint64_t shard_index() const { return static_cast<std::uint64_t>(replica_); }
  /// For shuffles: the same for all replicas, so a shuffle before the shard deals each element to
  /// one of them.
  std::uint64_t seed() const { return seed_; }

 private:
  Mode mode_;
  std::int64_t replicas_;
  std::int64_t replica_;
  std::uint64_t seed_;
};

/// Makes the stream of batches of one replica. It is called once for each replica, and again after
/// a restart: it must describe the same stream each time.
using InputFn = std::function<Dataset<Batch>(const InputContext&)>;

// Compiled once, in input.cpp, and not by every program.
extern template class Stage<Batch>;
extern template class Iterator<Batch>;
extern template class Dataset<Batch>;

}  // namespace muster
