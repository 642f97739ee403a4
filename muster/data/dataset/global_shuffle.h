#pragma once

#include <memory>
#include <utility>

#include "muster/base/random.h"
#include "muster/data/dataset/stage.h"

namespace muster {

/// All elements in a uniformly random order, without a buffer: a keyed permutation of the places of
/// an input with random access. A new order every epoch.
template <typename T>
class GlobalShuffleStage final : public PassingStage<T> {
 public:
  GlobalShuffleStage(std::shared_ptr<const Stage<T>> input, std::uint64_t seed)
      : PassingStage<T>(std::move(input)), seed_(seed) {}

  std::string_view kind() const override { return "global_shuffle"; }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    AccessOrObstacle<T> found = random_access(context);
    if (found.access == nullptr) {
      throw FailedPrecondition("global_shuffle needs random access: {}", found.obstacle);
    }
    return std::make_unique<AccessIterator<T>>(kind(), this->label(), context,
                                               std::move(found.access));
  }
  AccessOrObstacle<T> random_access(const EpochContext& context) const override {
    AccessOrObstacle<T> inner = this->input().random_access(context.input());
    if (inner.access == nullptr) return inner;
    return {std::make_unique<Access>(std::move(inner.access), derive_key(seed_, context.epoch)),
            {}};
  }

 private:
  class Access final : public RandomAccess<T> {
   public:
    Access(std::unique_ptr<RandomAccess<T>> access, std::uint64_t key)
        : access_(std::move(access)), order_(access_->size(), key) {}
    std::uint64_t size() const override { return order_.size(); }
    Element<T> at(std::uint64_t place) override { return access_->at(order_(place)); }

   private:
    std::unique_ptr<RandomAccess<T>> access_;
    Permutation order_;
  };

  std::uint64_t seed_;
};

}  // namespace muster
