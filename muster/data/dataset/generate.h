#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "muster/data/dataset/stage.h"

namespace muster {

/// Elements that a function of their number gives, until it gives none. The function is pure: the
/// same number, the same element; so the pass can be resumed anywhere.
template <typename T, typename Fn>
class GenerateStage final : public Stage<T> {
 public:
  explicit GenerateStage(Fn fn) : fn_(std::move(fn)) {}

  std::string_view kind() const override { return "generate"; }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context);
  }
  std::vector<Element<T>> collect(const EpochContext&,
                                  std::span<const Origin> origins) const override {
    std::vector<Element<T>> elements;
    elements.reserve(origins.size());
    for (const Origin& origin : origins) {
      std::optional<T> value = fn_(origin.ordinal);
      if (!value) throw_missing_element(*this, origin);
      elements.push_back({std::move(*value), origin});
    }
    return elements;
  }

 private:
  class Pass final : public StageIterator<T> {
   public:
    Pass(const GenerateStage& stage, const EpochContext& context)
        : StageIterator<T>(stage, context), stage_(stage), epoch_(context.epoch) {}

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      while (!ended_ && out.events() < most) {
        const Origin origin{epoch_, next_++};
        try {
          std::optional<T> value = stage_.fn_(origin.ordinal);
          if (value) {
            out.add(std::move(*value), origin);
          } else {
            ended_ = true;
          }
        } catch (...) {
          out.fail(current_failure(stage_.where(origin)));
        }
      }
    }
    // The end is found again by asking again, so it needs no place in the position.
    void do_save(PositionWriter& writer) const override { writer.number(next_ - (ended_ ? 1 : 0)); }
    void do_restore(PositionReader& reader) override { next_ = reader.number(); }

   private:
    const GenerateStage& stage_;
    std::uint64_t epoch_;
    std::uint64_t next_ = 0;
    bool ended_ = false;
  };

  Fn fn_;
};

/// Elements from functions with a state, one made for each pass. A state cannot be saved, so the
/// pipeline cannot be resumed.
template <typename T>
class GeneratorStage final : public Stage<T> {
 public:
  using Next = std::function<std::optional<T>()>;
  explicit GeneratorStage(std::function<Next()> start) : start_(std::move(start)) {}

  std::string_view kind() const override { return "from_generator"; }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context);
  }
  std::vector<Element<T>> collect(const EpochContext&, std::span<const Origin>) const override {
    throw_not_resumable();
  }

 private:
  [[noreturn]] static void throw_not_resumable() {
    throw FailedPrecondition(
        "the position cannot be saved: stage from_generator keeps a state of its own; use "
        "generate(), whose elements are a function of their number");
  }

  class Pass final : public StageIterator<T> {
   public:
    Pass(const GeneratorStage& stage, const EpochContext& context)
        : StageIterator<T>(stage, context),
          stage_(stage),
          next_(stage.start_()),
          epoch_(context.epoch) {}

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      while (!ended_ && out.events() < most) {
        const Origin origin{epoch_, number_++};
        try {
          std::optional<T> value = next_();
          if (value) {
            out.add(std::move(*value), origin);
          } else {
            ended_ = true;
          }
        } catch (...) {
          // The results of a stateful function after a failure are unspecified.
          ended_ = true;
          out.fail(current_failure(stage_.where(origin)));
        }
      }
    }
    void do_save(PositionWriter&) const override { throw_not_resumable(); }
    void do_restore(PositionReader&) override { throw_not_resumable(); }

   private:
    const GeneratorStage& stage_;
    Next next_;
    std::uint64_t epoch_;
    std::uint64_t number_ = 0;
    bool ended_ = false;
  };

  std::function<Next()> start_;
};

}  // namespace muster
