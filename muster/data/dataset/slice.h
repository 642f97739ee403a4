#pragma once

#include <memory>
#include <string>
#include <utility>

#include "muster/data/dataset/stage.h"

namespace muster {

/// Which elements of a stream a SliceStage passes on.
enum class Slice {
  /// take: the first ones. A failure takes the place of its element, and counts.
  kFirst,
  /// skip: all but the first ones. Those are not made where the input can jump over them; a failure
  /// among them is not reported.
  kRest,
};

/// A stream on one side of its element number `count`.
template <typename T>
class SliceStage final : public PassingStage<T> {
 public:
  SliceStage(std::shared_ptr<const Stage<T>> input, Slice slice, std::uint64_t count)
      : PassingStage<T>(std::move(input)), slice_(slice), count_(count) {}

  std::string_view kind() const override { return slice_ == Slice::kFirst ? "take" : "skip"; }
  std::string label() const override { return fmt::format("{}({})", kind(), count_); }
  std::optional<std::uint64_t> size() const override {
    const auto all = this->input().size();
    if (!all) return std::nullopt;
    const std::uint64_t first = std::min(*all, count_);
    return slice_ == Slice::kFirst ? first : *all - first;
  }
  bool is_endless() const override { return slice_ == Slice::kRest && this->input().is_endless(); }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context, this->input().open(context.input()));
  }
  AccessOrObstacle<T> random_access(const EpochContext& context) const override {
    auto all = this->input().random_access(context.input());
    if (slice_ == Slice::kFirst) return stride_access(std::move(all), 0, 1, count_);
    return stride_access(std::move(all), count_, 1);
  }

 private:
  class Pass final : public StageIterator<T> {
   public:
    Pass(const SliceStage& stage, const EpochContext& context,
         std::unique_ptr<StageIterator<T>> input)
        : StageIterator<T>(stage, context),
          input_(std::move(input)),
          slice_(stage.slice_),
          left_(stage.count_) {}

    std::uint64_t skip(std::uint64_t events) override {
      if (slice_ == Slice::kRest) {
        go_to_rest();
        return input_->skip(events);
      }
      const std::uint64_t skipped = input_->skip(std::min(events, left_));
      left_ -= skipped;
      return skipped;
    }

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      if (slice_ == Slice::kRest) {
        go_to_rest();
        input_->pull(out, most);
      } else if (left_ > 0) {
        left_ -= input_->pull(out, std::min<std::uint64_t>(most, left_));
      }
    }
    void do_save(PositionWriter& writer) const override {
      writer.number(left_);
      input_->save(writer);
    }
    void do_restore(PositionReader& reader) override {
      left_ = reader.number();
      input_->restore(reader);
    }

   private:
    // Late, so that a restored pass does not skip for nothing.
    void go_to_rest() {
      if (left_ > 0) input_->skip(std::exchange(left_, 0));
    }

    std::unique_ptr<StageIterator<T>> input_;
    Slice slice_;
    /// Elements before number `count`.
    std::uint64_t left_;
  };

  Slice slice_;
  std::uint64_t count_;
};

}  // namespace muster
