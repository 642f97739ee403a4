#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "muster/data/dataset/read_ahead_iterator.h"
#include "muster/data/dataset/stage.h"

namespace muster {

/// Makes elements in a thread of its own, ahead of their consumer.
template <typename T>
class PrefetchStage final : public PassingStage<T> {
 public:
  PrefetchStage(std::shared_ptr<const Stage<T>> input, std::size_t count)
      : PassingStage<T>(std::move(input)), count_(count) {
    if (count == 0) throw InvalidArgument("prefetch needs room for one element at least: 0");
  }

  std::string_view kind() const override { return "prefetch"; }
  std::string label() const override { return fmt::format("prefetch({})", count_); }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return pass_over(this->input().open(context.input()), context);
  }
  std::unique_ptr<StageIterator<T>> open_shard(const EpochContext& context,
                                               const ShardOf& part) const override {
    return pass_over(this->input().open_shard(context.input(), part), context);
  }
  AccessOrObstacle<T> random_access(const EpochContext& context) const override {
    return this->input().random_access(context.input());
  }

 private:
  struct PassOn {
    void operator()(Chunk<T>& in, Chunk<T>& out) const { std::swap(in, out); }
  };

  std::unique_ptr<StageIterator<T>> pass_over(std::unique_ptr<StageIterator<T>> input,
                                              const EpochContext& context) const {
    constexpr std::size_t kMaxPieceElements = 2048;
    ReadAhead::Options options{
        .threads = 1,
        .max_elements = count_,
        .max_pieces = count_,
        .max_piece_elements = std::clamp<std::size_t>(count_ / 4, 1, kMaxPieceElements)};
    return std::make_unique<ReadAheadIterator<T, T, PassOn>>(*this, context, std::move(input),
                                                             PassOn{}, std::move(options));
  }

  std::size_t count_;
};

}  // namespace muster
