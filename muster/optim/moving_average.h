#pragma once

#include <cstdint>
#include <vector>

#include "muster/optim/named_tensor.h"
#include "muster/optim/variables.h"

namespace muster {

struct MovingAverageOptions {
  double decay = 0.9999;
  /// Lets young averages move faster: after n updates the decay is at most (1 + n) / (10 + n).
  bool ramp = false;
};

/// An exponential moving average of every trainable variable, which evaluation and export can use
/// in place of the variables. It begins with the values that the variables have when it is made.
/// Whole tables take part, since an average moves where its variable rests. Belongs to the thread
/// of its Variables.
class MovingAverage {
 public:
  /// Throws InvalidArgument unless 0 <= decay <= 1.
  MovingAverage(const Variables& variables, const MovingAverageOptions& options);

  /// After an update: average -= (average - w) * (1 - decay). `step` is the number of updates made
  /// before this one.
  void update(std::int64_t step);

  /// Exchanges averages and variables; a second call brings them back.
  void swap();

  /// As `<variable>/ExponentialMovingAverage`.
  std::vector<NamedTensor> tensors() const;

 private:
  struct Pair {
    at::Tensor value;
    at::Tensor average;
  };
  MovingAverageOptions options_;
  /// The flat buffer, then each table.
  std::vector<Pair> pairs_;
  std::vector<NamedTensor> tensors_;
};

/// Puts the averages in the variables' place while it lives.
class AverageInUse {
 public:
  explicit AverageInUse(MovingAverage& average) : average_(average) { average_.swap(); }
  ~AverageInUse() { average_.swap(); }
  AverageInUse(const AverageInUse&) = delete;
  AverageInUse& operator=(const AverageInUse&) = delete;

 private:
  MovingAverage& average_;
};

}  // namespace muster
