#pragma once

#include <memory>
#include <utility>

#include "muster/data/dataset/stage.h"

namespace muster {

/// One of several equal parts of a stream: the elements whose place in it leaves the remainder
/// `index`. The others are not made where the input can jump over them.
template <typename T>
class ShardStage final : public PassingStage<T> {
 public:
  ShardStage(std::shared_ptr<const Stage<T>> input, const ShardOf& part)
      : PassingStage<T>(std::move(input)), part_(part) {
    if (part.count == 0 || part.index >= part.count) {
      throw InvalidArgument("shard {} of {} does not exist", part.index, part.count);
    }
  }

  std::string_view kind() const override { return kShardKind; }
  std::string label() const override { return label_of(part_); }
  std::optional<std::uint64_t> size() const override {
    const auto all = this->input().size();
    if (!all) return std::nullopt;
    return *all <= part_.index ? 0 : (*all - part_.index - 1) / part_.count + 1;
  }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return this->input().open_shard(context, part_);
  }
  std::vector<Element<T>> collect(const EpochContext& context,
                                  std::span<const Origin> origins) const override {
    return this->input().collect(context, origins);
  }
  AccessOrObstacle<T> random_access(const EpochContext& context) const override {
    return stride_access(this->input().random_access(context), part_.index, part_.count);
  }

 private:
  ShardOf part_;
};

}  // namespace muster
