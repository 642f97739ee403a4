#pragma once

#include <memory>
#include <string>
#include <utility>

#include "muster/dataset/stage.h"

namespace muster {

/// All but the first elements of a stream. Those are not made where the input can jump over them;
/// a failure among them is not reported.
template <typename T>
class SkipStage final : public PassingStage<T> {
 public:
  SkipStage(std::shared_ptr<const Stage<T>> input, std::uint64_t count)
      : PassingStage<T>(std::move(input)), count_(count) {}

  std::string_view kind() const override { return "skip"; }
  std::string label() const override { return fmt::format("skip({})", count_); }
  std::optional<std::uint64_t> size() const override {
    const auto all = this->input().size();
    return all ? std::optional(*all - std::min(*all, count_)) : std::nullopt;
  }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context, this->input().open(context.input()));
  }
  AccessOrObstacle<T> random_access(const EpochContext& context) const override {
    return stride_access(this->input().random_access(context.input()), count_, 1);
  }

 private:
  class Pass final : public StageIterator<T> {
   public:
    Pass(const SkipStage& stage, const EpochContext& context,
         std::unique_ptr<StageIterator<T>> input)
        : StageIterator<T>(stage, context), input_(std::move(input)), left_(stage.count_) {}

    std::uint64_t skip(std::uint64_t events) override {
      go_to_first();
      return input_->skip(events);
    }

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      go_to_first();
      input_->pull(out, most);
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
    void go_to_first() {
      if (left_ > 0) input_->skip(std::exchange(left_, 0));
    }

    std::unique_ptr<StageIterator<T>> input_;
    std::uint64_t left_;
  };

  std::uint64_t count_;
};

}  // namespace muster
