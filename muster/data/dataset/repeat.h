#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/dataset/stage.h"

namespace muster {

/// How the epochs of a repeated stage are numbered: nested repeats and repeats in several passes
/// must not share a number.
class EpochNumbers {
 public:
  /// Not set: without end.
  explicit EpochNumbers(std::optional<std::uint64_t> count) : count_(count) {}
  /// The epoch of round `round` in a pass that itself is number `outer`. Throws OutOfRange.
  std::uint64_t epoch(std::uint64_t outer, std::uint64_t round) const;
  std::uint64_t outer(std::uint64_t epoch) const;

 private:
  std::uint64_t radix() const;

  std::optional<std::uint64_t> count_;
};

/// The input again and again, each time as a new epoch. An input without elements ends it.
template <typename T>
class RepeatStage final : public UnaryStage<T> {
 public:
  RepeatStage(std::shared_ptr<const Stage<T>> input, std::optional<std::uint64_t> count)
      : UnaryStage<T>(std::move(input)), count_(count), numbers_(count) {}

  std::string_view kind() const override { return "repeat"; }
  std::string label() const override {
    return count_ ? fmt::format("repeat({})", *count_) : "repeat()";
  }
  std::optional<std::uint64_t> size() const override {
    const auto once = this->input().size();
    std::uint64_t all = 0;
    if (!once || !count_ || __builtin_mul_overflow(*once, *count_, &all)) return std::nullopt;
    return all;
  }
  bool is_endless() const override { return !count_ || this->input().is_endless(); }
  std::uint64_t opening_epoch(Origin origin) const override {
    return numbers_.outer(this->input().opening_epoch(origin));
  }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context);
  }
  AccessOrObstacle<T> random_access(const EpochContext&) const override {
    return {nullptr, label() + " gives no random access; put it behind"};
  }
  std::vector<Element<T>> collect(const EpochContext& context,
                                  std::span<const Origin> origins) const override {
    std::vector<Element<T>> elements;
    elements.reserve(origins.size());
    // Origins are sorted by epoch, so those of one round are adjacent.
    for (std::size_t begin = 0; begin < origins.size();) {
      const std::uint64_t epoch = this->input().opening_epoch(origins[begin]);
      std::size_t end = begin + 1;
      while (end < origins.size() && this->input().opening_epoch(origins[end]) == epoch) ++end;
      auto found = this->input().collect(context.input().with_epoch(epoch),
                                         origins.subspan(begin, end - begin));
      for (Element<T>& element : found) elements.push_back(std::move(element));
      begin = end;
    }
    return elements;
  }

 private:
  class Pass final : public StageIterator<T> {
   public:
    Pass(const RepeatStage& stage, const EpochContext& context)
        : StageIterator<T>(stage, context), stage_(stage), context_(context) {
      open_round();
    }

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      while (!ended() && input_->pull(out, most) == 0) next_round();
      any_ = any_ || !out.empty();
    }
    void do_save(PositionWriter& writer) const override {
      writer.number(round_);
      writer.number(any_ ? 1 : 0);
      if (input_) input_->save(writer);
    }
    void do_restore(PositionReader& reader) override {
      round_ = reader.number();
      any_ = reader.number() != 0;
      open_round();
      // A pass that was saved at its end begins a round that it has now, since the count is larger.
      if (input_ && !reader.at_end()) input_->restore(reader);
    }

   private:
    bool ended() const { return input_ == nullptr; }
    void next_round() {
      if (any_) {
        ++round_;
        any_ = false;
        open_round();
      } else {
        // It would be looked for in vain forever.
        round_ = stage_.count_.value_or(round_);
        input_.reset();
      }
    }
    void open_round() {
      input_.reset();
      if (stage_.count_ && round_ >= *stage_.count_) return;
      const std::uint64_t epoch = stage_.numbers_.epoch(context_.epoch, round_);
      input_ = stage_.input().open(context_.input().with_epoch(epoch));
    }

    const RepeatStage& stage_;
    EpochContext context_;
    std::unique_ptr<StageIterator<T>> input_;
    std::uint64_t round_ = 0;
    /// Whether this round has had an event.
    bool any_ = false;
  };

  std::optional<std::uint64_t> count_;
  EpochNumbers numbers_;
};

}  // namespace muster
