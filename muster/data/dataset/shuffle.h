#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/dataset/stage.h"
#include "muster/data/records/kept_record.h"

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

inline constexpr std::string_view kShuffleKind = "shuffle";

/// Part of a shuffle's position that precedes that of its input.
struct ShufflePosition {
  std::uint64_t drawn = 0;
  bool input_ended = false;
  /// Origins of the elements in the buffer.
  std::vector<Origin> held{};
};

void save_shuffle(PositionWriter& writer, ShufflePosition position);
/// Throws InvalidArgument for what cannot be in a buffer of this size.
ShufflePosition restore_shuffle(PositionReader& reader, std::size_t buffer_size);

/// The numbers of a stream of known length in the order of a shuffle.
class ShuffledNumbers {
 public:
  ShuffledNumbers(std::uint32_t size, std::size_t buffer_size, const ShuffleDraws& draws)
      : size_(size), buffer_size_(buffer_size), draws_(draws) {}

  /// Passes over `numbers` of them, or to the end. Returns how many there were.
  std::uint64_t skip(std::uint64_t numbers);
  /// Nothing at the end.
  std::optional<std::uint32_t> next();

  std::uint64_t drawn() const { return draws_.drawn(); }
  /// How many numbers have come into the buffer, and those that are in it.
  std::uint32_t taken() const { return taken_; }
  const std::vector<std::uint32_t>& held() const { return held_; }
  bool input_ended() const { return taken_ == size_; }
  void go_to(std::uint64_t drawn, std::uint32_t taken, std::vector<std::uint32_t> held);

 private:
  void fill();
  std::uint32_t draw();

  std::uint32_t size_;
  std::size_t buffer_size_;
  ShuffleDraws draws_;
  std::uint32_t taken_ = 0;
  std::vector<std::uint32_t> held_;
};

/// A part of the shuffle of a known pass. Its position can be read by ShardByReading over a
/// shuffle, and the other way round: what is known of files is learnt while a program runs.
template <typename T>
class ShardOfKnown final : public StageIterator<T> {
 public:
  static constexpr std::uint64_t kMostElements = std::numeric_limits<std::uint32_t>::max();

  ShardOfKnown(const ShardOf& part, const EpochContext& context,
               std::unique_ptr<KnownPass<T>> input, std::size_t buffer_size,
               const ShuffleDraws& draws)
      : StageIterator<T>(kShardKind, label_of(part), context),
        part_(part),
        input_(std::move(input)),
        buffer_size_(buffer_size),
        numbers_(static_cast<std::uint32_t>(input_->size()), buffer_size, draws) {}

 protected:
  void do_pull(Chunk<T>& out, std::size_t most) override {
    for (; out.events() < most; ++given_) {
      const std::uint64_t gap = part_.gap_behind(given_);
      if (numbers_.skip(gap) < gap) return;
      const std::optional<std::uint32_t> number = numbers_.next();
      if (!number) return;
      try {
        out.add(input_->at(*number));
      } catch (...) {
        out.fail(std::current_exception());
      }
    }
  }
  void do_save(PositionWriter& writer) const override {
    std::vector<Origin> held;
    held.reserve(numbers_.held().size());
    for (const std::uint32_t number : numbers_.held()) held.push_back(input_->origin(number));
    auto inner = std::make_shared<PositionWriter>();
    inner->stage(kShuffleKind);
    save_shuffle(*inner, {numbers_.drawn(), numbers_.input_ended(), std::move(held)});
    input_->save(*inner, numbers_.taken());
    writer.number(given_);
    writer.nested(std::move(inner));
  }
  void do_restore(PositionReader& reader) override {
    given_ = reader.number();
    PositionReader inner = reader.nested();
    inner.expect(kShuffleKind);
    const ShufflePosition position = restore_shuffle(inner, buffer_size_);
    std::vector<std::uint32_t> held;
    held.reserve(position.held.size());
    for (const Origin& origin : position.held) {
      held.push_back(static_cast<std::uint32_t>(input_->place(origin)));
    }
    const std::uint64_t restored = input_->restore(inner);
    const std::uint64_t taken = position.input_ended ? input_->size() : restored;
    numbers_.go_to(position.drawn, static_cast<std::uint32_t>(taken), std::move(held));
  }

 private:
  ShardOf part_;
  std::unique_ptr<KnownPass<T>> input_;
  std::size_t buffer_size_;
  ShuffledNumbers numbers_;
  std::uint64_t given_ = 0;
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

  std::string_view kind() const override { return kShuffleKind; }
  std::string label() const override { return fmt::format("{}({})", kShuffleKind, buffer_size_); }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context);
  }
  // The order does not depend on what the elements are: where they are known, those of other parts
  // are drawn as numbers and never made.
  std::unique_ptr<StageIterator<T>> open_shard(const EpochContext& context,
                                               const ShardOf& part) const override {
    std::unique_ptr<KnownPass<T>> known = this->input().known_pass(context.input().input());
    if (known == nullptr || known->size() > ShardOfKnown<T>::kMostElements) {
      return PassingStage<T>::open_shard(context, part);
    }
    return std::make_unique<ShardOfKnown<T>>(part, context, std::move(known), buffer_size_,
                                             ShuffleDraws(seed_, context.epoch));
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
      save_shuffle(writer, {draws_.drawn(), input_ended_, std::move(held)});
      input_->save(writer);
    }
    void do_restore(PositionReader& reader) override {
      const ShufflePosition position = restore_shuffle(reader, stage_.buffer_size_);
      draws_.go_to(position.drawn);
      input_ended_ = position.input_ended;
      buffer_ = collect_unsorted(stage_.input(), context_.input(), position.held);
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
