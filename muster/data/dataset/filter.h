#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "muster/data/dataset/stage.h"

namespace muster {

/// The elements for which a predicate holds.
template <typename T, typename Predicate>
class FilterStage final : public PassingStage<T> {
 public:
  FilterStage(std::shared_ptr<const Stage<T>> input, Predicate predicate)
      : PassingStage<T>(std::move(input)), predicate_(std::move(predicate)) {}

  std::string_view kind() const override { return "filter"; }
  std::optional<std::uint64_t> size() const override { return std::nullopt; }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context, this->input().open(context.input()));
  }
  AccessOrObstacle<T> random_access(const EpochContext&) const override {
    return {nullptr, "filter does not know how many elements it keeps; put it behind"};
  }

 private:
  class Pass final : public StageIterator<T> {
   public:
    Pass(const FilterStage& stage, const EpochContext& context,
         std::unique_ptr<StageIterator<T>> input)
        : StageIterator<T>(stage, context), stage_(stage), input_(std::move(input)) {}

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      while (out.empty() && input_->pull(chunk_, most) > 0) {
        chunk_.drain([&](Element<T>& element) { keep_if_wanted(element, out); },
                     [&](std::exception_ptr error) { out.fail(std::move(error)); });
      }
      chunk_.clear();
    }
    void do_save(PositionWriter& writer) const override { input_->save(writer); }
    void do_restore(PositionReader& reader) override { input_->restore(reader); }

   private:
    void keep_if_wanted(Element<T>& element, Chunk<T>& out) {
      try {
        if (std::invoke(stage_.predicate_, std::as_const(element.value))) {
          out.add(std::move(element));
        }
      } catch (...) {
        out.fail(current_failure("filter of " + stage_.where(element.origin)));
      }
    }

    const FilterStage& stage_;
    std::unique_ptr<StageIterator<T>> input_;
    Chunk<T> chunk_;
  };

  Predicate predicate_;
};

}  // namespace muster
