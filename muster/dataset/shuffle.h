#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/dataset/stage.h"
#include "muster/records/kept_record.h"

namespace muster {

/// Which slot of the buffer is emptied next: a pure function of (seed, epoch, number of the draw).
class ShuffleDraws {
 public:
  ShuffleDraws(std::uint64_t seed, std::uint64_t epoch);
  /// In [0, size).
  std::size_t draw(std::size_t size);
  std::uint64_t drawn() const { return drawn_; }
  void go_to(std::uint64_t draw);

 private:
  std::uint64_t key_;
  std::uint64_t drawn_ = 0;
  /// One call of the generator makes two draws.
  std::uint64_t spare_ = 0;
};

/// Elements in a random order within a window: each comes out of a buffer that is kept full. A new
/// order every epoch.
template <typename T>
class ShuffleStage final : public PassingStage<T> {
 public:
  ShuffleStage(std::shared_ptr<const Stage<T>> input, std::size_t buffer_size, std::uint64_t seed)
      : PassingStage<T>(std::move(input)), buffer_size_(buffer_size), seed_(seed) {
    if (buffer_size == 0) throw InvalidArgument("shuffle's buffer_size must be positive: 0");
  }

  std::string_view kind() const override { return "shuffle"; }
  std::string label() const override { return fmt::format("shuffle({})", buffer_size_); }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context);
  }
  AccessOrObstacle<T> random_access(const EpochContext&) const override {
    return {nullptr, label() + " gives no random access; use global_shuffle(seed)"};
  }

 private:
  class Pass final : public StageIterator<T> {
   public:
    Pass(const ShuffleStage& stage, const EpochContext& context)
        : StageIterator<T>(stage, context),
          stage_(stage),
          context_(context),
          input_(stage.input().open(context.input())),
          draws_(stage.seed_, context.epoch) {}

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      while (!input_ended_ && buffer_.size() < stage_.buffer_size_ && out.empty()) fill(out, most);
      if (!out.empty()) return;
      if (!input_ended_) exchange(out, most);
      if (input_ended_ && out.empty()) empty(out, most);
    }
    void do_save(PositionWriter& writer) const override {
      std::vector<Origin> held;
      held.reserve(buffer_.size());
      for (const Element<T>& element : buffer_) held.push_back(element.origin);
      writer.number(draws_.drawn());
      writer.number(input_ended_ ? 1 : 0);
      writer.origins(std::move(held));
      input_->save(writer);
    }
    void do_restore(PositionReader& reader) override {
      draws_.go_to(reader.number());
      input_ended_ = reader.number() != 0;
      buffer_ = collect_unsorted(stage_.input(), context_.input(), reader.origins());
      if (buffer_.size() > stage_.buffer_size_) {
        throw InvalidArgument("position was saved with {} elements in the buffer of shuffle({})",
                              buffer_.size(), stage_.buffer_size_);
      }
      input_->restore(reader);
    }

   private:
    // Only failures go out while the buffer fills.
    void fill(Chunk<T>& out, std::size_t most) {
      const std::size_t room = stage_.buffer_size_ - buffer_.size();
      if (input_->pull(chunk_, std::min(most, room)) == 0) input_ended_ = true;
      chunk_.drain(
          [&](Element<T>& element) {
            copy_out_of_block(element.value);
            buffer_.push_back(std::move(element));
          },
          [&](std::exception_ptr error) { out.fail(std::move(error)); });
    }
    void exchange(Chunk<T>& out, std::size_t most) {
      if (input_->pull(chunk_, most) == 0) input_ended_ = true;
      chunk_.drain(
          [&](Element<T>& element) {
            copy_out_of_block(element.value);
            Element<T>& slot = buffer_[draws_.draw(buffer_.size())];
            out.add(std::exchange(slot, std::move(element)));
          },
          [&](std::exception_ptr error) { out.fail(std::move(error)); });
    }
    void empty(Chunk<T>& out, std::size_t most) {
      while (!buffer_.empty() && out.events() < most) {
        Element<T>& slot = buffer_[draws_.draw(buffer_.size())];
        std::swap(slot, buffer_.back());
        out.add(std::move(buffer_.back()));
        buffer_.pop_back();
      }
    }

    const ShuffleStage& stage_;
    EpochContext context_;
    std::unique_ptr<StageIterator<T>> input_;
    ShuffleDraws draws_;
    std::vector<Element<T>> buffer_;
    bool input_ended_ = false;
    Chunk<T> chunk_;
  };

  std::size_t buffer_size_;
  std::uint64_t seed_;
};

}  // namespace muster
