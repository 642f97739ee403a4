#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "muster/nn/optim/named_tensor.h"
#include "muster/nn/optim/tensor_part.h"
#include "muster/nn/optim/variables.h"

namespace muster {

struct MovingAverageOptions {
  double decay = 0.9999;
  /// Lets young averages move faster: after n updates the decay is at most (1 + n) / (10 + n).
  bool ramp = false;
};

/// An exponential moving average of every trainable variable, which evaluation and export can use
/// in place of the variables. It begins with the values that the variables have when it is made.
/// Whole tables take part, since an average moves where its variable rests; but a row of a table on
/// the CPU makes up for what it missed only when it is touched or read, so a step's time
/// depends on its rows alone, and the bits are those of moving every row at every step. Belongs to
/// the thread of its Variables.
///
///   average.before_update(gradients);
///   updater.apply(gradients, step);
///   average.update(gradients, step);
class MovingAverage {
 public:
  /// Throws InvalidArgument unless 0 <= decay <= 1. With `held`, there are averages of these
  /// elements of the dense variables alone.
  MovingAverage(const Variables& variables, const MovingAverageOptions& options,
                std::optional<FlatRange> held = std::nullopt);

  /// Where some elements are held: those are others from here on, whose averages begin with the
  /// values that the variables have now.
  void hold(const FlatRange& range);

  /// Before an update: the rows that it will touch make up for what they missed.
  void before_update(const Gradients& gradients);
  /// After an update: average -= (average - w) * (1 - decay). `step` is the number of updates made
  /// before this one.
  void update(const Gradients& gradients, std::int64_t step);
  /// The same after changes of unknown rows: moves every row of every table at once.
  void update(std::int64_t step);

  /// Exchanges averages and variables; a second call brings them back. All are held.
  void swap();

  /// As `<variable>/ExponentialMovingAverage`, up to date; values may be copied into them. Where
  /// some elements are held, averages of dense variables are in parts().
  std::vector<NamedTensor> tensors() const;
  /// The held part of the average of every dense variable; none where all elements are held.
  std::vector<TensorPart> parts() const;

 private:
  struct Pair {
    at::Tensor value;
    at::Tensor average;
  };
  struct Table {
    Pair pair;
    std::size_t rows_index = 0;
    /// By row: how many of rates_ it has seen. Empty on other devices, where whole tables move.
    mutable std::vector<std::uint32_t> seen{};
  };
  void take_held(const FlatRange& range);
  float rate_at(std::int64_t step) const;
  /// Moves a row by those of rates_ that it has not seen.
  void catch_up(const Table& table, std::size_t row) const;
  void catch_up_all() const;

  MovingAverageOptions options_;
  std::optional<FlatRange> held_;
  /// All values, and of those that are held both.
  at::Tensor values_;
  Pair flat_;
  std::vector<Variable> dense_;
  std::vector<Table> tables_;
  /// Rates of the updates since all rows were up to date.
  mutable std::vector<float> rates_;
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
