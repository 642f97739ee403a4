#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <typeinfo>

#include "muster/base/error.h"
#include "muster/nn/model/exact_sum.h"
#include "muster/nn/model/metric.h"

namespace muster {

/// A metric that is a function of some sums, which is what most are. A class of your own derives
/// from it, adds to the sums in a function such as update(), and says what it is and what the sums
/// come to; merging, copying and serialising are done here, exactly.
///
///   class RootMeanSquaredError : public muster::MetricOfSums<RootMeanSquaredError, 2> {
///    public:
///     std::string_view kind() const override { return "rmse"; }
///     double compute() const override { return sum(1) == 0 ? 0 : std::sqrt(sum(0) / sum(1)); }
///   };
template <typename Derived, std::size_t kSums>
class MetricOfSums : public Metric {
 public:
  void merge(const Metric& other) override {
    if (typeid(other) != typeid(Derived)) {
      throw InvalidArgument("a metric of the kind {} cannot take the state of one of the kind {}",
                            kind(), other.kind());
    }
    const auto& same = static_cast<const MetricOfSums&>(other);
    for (std::size_t i = 0; i < kSums; ++i) sums_[i].merge(same.sums_[i]);
  }
  void reset() override { sums_ = {}; }
  std::unique_ptr<Metric> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
  void write(StateWriter& out) const override {
    for (const ExactSum& sum : sums_) sum.write(out);
  }
  void read(StateReader& in) override {
    for (ExactSum& sum : sums_) sum = ExactSum::read(in);
  }

 protected:
  /// Adds to the sum of this number, without rounding.
  void add(std::size_t sum, double value) { sums_[sum].add(value); }
  /// Rounded once; 0 before anything was added.
  double sum(std::size_t number) const { return sums_[number].value(); }

 private:
  std::array<ExactSum, kSums> sums_{};
};

}  // namespace muster
