#pragma once

#include <memory>
#include <string>
#include <utility>

#include "muster/dataset/stage.h"

namespace muster {

/// The first elements of a stream. A failure takes the place of its element, and counts.
template <typename T>
class TakeStage final : public PassingStage<T> {
 public:
  TakeStage(std::shared_ptr<const Stage<T>> input, std::uint64_t count)
      : PassingStage<T>(std::move(input)), count_(count) {}

  std::string_view kind() const override { return "take"; }
  std::string label() const override { return fmt::format("take({})", count_); }
  std::optional<std::uint64_t> size() const override {
    const auto all = this->input().size();
    return all ? std::optional(std::min(*all, count_)) : std::nullopt;
  }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context, this->input().open(context.input()));
  }
  AccessOrObstacle<T> random_access(const EpochContext& context) const override {
    return stride_access(this->input().random_access(context.input()), 0, 1, count_);
  }

 private:
  class Pass final : public StageIterator<T> {
   public:
    Pass(const TakeStage& stage, const EpochContext& context,
         std::unique_ptr<StageIterator<T>> input)
        : StageIterator<T>(stage, context), input_(std::move(input)), left_(stage.count_) {}

    std::uint64_t skip(std::uint64_t events) override {
      const std::uint64_t skipped = input_->skip(std::min(events, left_));
      left_ -= skipped;
      return skipped;
    }

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      if (left_ > 0) left_ -= input_->pull(out, std::min<std::uint64_t>(most, left_));
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
    std::unique_ptr<StageIterator<T>> input_;
    std::uint64_t left_;
  };

  std::uint64_t count_;
};

}  // namespace muster
