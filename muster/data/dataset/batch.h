#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/data/dataset/stage.h"
#include "muster/data/records/row_names.h"

namespace muster {

/// Treatment of the last elements when they do not fill a batch.
enum class Remainder { kKeep, kDrop };

/// Collates to the elements themselves.
template <typename T>
struct AsVector {
  std::vector<T> operator()(std::vector<T>&& values) const { return std::move(values); }
};

/// Result of a collate function for the elements of a batch, which it takes as a vector or as a
/// span.
template <typename T, typename Collate>
auto collate(const Collate& function, std::vector<T>&& values) {
  if constexpr (std::is_invocable_v<const Collate&, std::vector<T>&&>) {
    return std::invoke(function, std::move(values));
  } else {
    return std::invoke(function, std::span<const T>(values));
  }
}

/// Result of a collate function that records where its rows come from.
template <typename T>
concept NamesItsRows = requires(T& batch, RowNamesPtr names) {
  batch.row_names = names;
};

/// The rows of a batch by the elements that they were made of, one each.
template <typename T>
class NamesOfElements final : public RowNames {
 public:
  NamesOfElements(std::shared_ptr<const Stage<T>> input, std::vector<Origin> origins)
      : input_(std::move(input)), origins_(std::move(origins)) {}

  std::string of(std::int64_t row) const override {
    return input_->where(origins_.at(static_cast<std::size_t>(row)));
  }

 private:
  std::shared_ptr<const Stage<T>> input_;
  std::vector<Origin> origins_;
};

/// A row of elements as one. A failed element is reported before the batch it would have been in,
/// and the elements after it fill that batch. Batches are numbered within the pass.
template <typename T, typename Collate>
class BatchStage final
    : public UnaryStage<T, decltype(collate<T>(std::declval<const Collate&>(),
                                               std::declval<std::vector<T>>()))> {
 public:
  using Out = decltype(collate<T>(std::declval<const Collate&>(), std::declval<std::vector<T>>()));

  BatchStage(std::shared_ptr<const Stage<T>> input, std::size_t size, Remainder remainder,
             Collate function)
      : UnaryStage<T, Out>(std::move(input)),
        size_(size),
        remainder_(remainder),
        collate_(std::move(function)) {
    if (size == 0) throw InvalidArgument("batch size must be positive: 0");
  }

  std::string_view kind() const override { return "batch"; }
  std::string label() const override { return fmt::format("batch({})", size_); }
  std::optional<std::uint64_t> size() const override {
    const auto all = this->input().size();
    if (!all) return std::nullopt;
    return *all / size_ + (remainder_ == Remainder::kKeep && *all % size_ != 0 ? 1 : 0);
  }
  std::string where(Origin origin) const override { return this->place_in_stage(origin); }
  std::uint64_t opening_epoch(Origin origin) const override { return origin.epoch; }
  std::unique_ptr<StageIterator<Out>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context);
  }
  AccessOrObstacle<Out> random_access(const EpochContext&) const override {
    return {nullptr, label() + " gives no random access; put it behind"};
  }
  std::vector<Element<Out>> collect(const EpochContext& context,
                                    std::span<const Origin> origins) const override {
    return this->collect_by_replay(context, origins, /*ascending=*/true);
  }

 private:
  class Pass final : public StageIterator<Out> {
   public:
    Pass(const BatchStage& stage, const EpochContext& context)
        : StageIterator<Out>(stage, context),
          stage_(stage),
          context_(context),
          input_(stage.input().open(context.input())) {}

   protected:
    void do_pull(Chunk<Out>& out, std::size_t most) override {
      while (out.events() < most) {
        const bool full = failures_.empty() && fill();
        if (!failures_.empty()) {
          out.fail(std::move(failures_.front()));
          failures_.erase(failures_.begin());
        } else if (full || (!held_.empty() && stage_.remainder_ == Remainder::kKeep)) {
          emit(out);
        } else {
          return;
        }
      }
    }
    void do_save(PositionWriter& writer) const override {
      writer.number(number_);
      writer.origins(held_);
      writer.failures(failures_);
      input_->save(writer);
    }
    void do_restore(PositionReader& reader) override {
      number_ = reader.number();
      held_ = reader.origins();
      values_.clear();
      for (auto& element : collect_unsorted(stage_.input(), context_.input(), held_)) {
        values_.push_back(std::move(element.value));
      }
      failures_ = reader.failures();
      input_->restore(reader);
    }

   private:
    // Whether the batch is full: not so at the end of the input, and when a failure is met, which
    // is the only case in which elements are held between two calls.
    bool fill() {
      values_.reserve(stage_.size_);
      while (values_.size() < stage_.size_ && failures_.empty()) {
        if (input_->pull(chunk_, stage_.size_ - values_.size()) == 0) return false;
        chunk_.drain(
            [&](Element<T>& element) {
              held_.push_back(element.origin);
              values_.push_back(std::move(element.value));
            },
            [&](std::exception_ptr error) { failures_.push_back(std::move(error)); });
      }
      return values_.size() == stage_.size_;
    }
    void emit(Chunk<Out>& out) {
      const Origin origin{context_.epoch, number_++};
      try {
        Out batch = collate<T>(stage_.collate_, std::move(values_));
        if constexpr (NamesItsRows<Out>) {
          batch.row_names =
              std::make_shared<NamesOfElements<T>>(stage_.shared_input(), std::move(held_));
        }
        out.add(std::move(batch), origin);
      } catch (...) {
        out.fail(current_failure(fmt::format("batch {}, from {} to {}", origin.ordinal,
                                             stage_.input().where(held_.front()),
                                             stage_.input().where(held_.back()))));
      }
      values_ = std::vector<T>();
      held_.clear();
    }

    const BatchStage& stage_;
    EpochContext context_;
    std::unique_ptr<StageIterator<T>> input_;
    std::uint64_t number_ = 0;
    std::vector<T> values_;
    /// Where the values come from.
    std::vector<Origin> held_;
    /// Met, and not reported yet.
    std::vector<std::exception_ptr> failures_;
    Chunk<T> chunk_;
  };

  std::size_t size_;
  Remainder remainder_;
  Collate collate_;
};

}  // namespace muster
