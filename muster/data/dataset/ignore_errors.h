#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "muster/data/dataset/stage.h"

namespace muster {

/// The log line of one dropped element.
void log_dropped_element(const Error& failure, std::uint64_t dropped, std::uint64_t budget);

/// Drops elements that could not be made, up to a number of them in each pass, and logs each one.
/// From then on failures are passed on. Only muster's own errors are dropped.
template <typename T>
class IgnoreErrorsStage final : public PassingStage<T> {
 public:
  IgnoreErrorsStage(std::shared_ptr<const Stage<T>> input, std::uint64_t budget)
      : PassingStage<T>(std::move(input)), budget_(budget) {}

  std::string_view kind() const override { return "ignore_errors"; }
  std::string label() const override { return fmt::format("ignore_errors({})", budget_); }
  std::optional<std::uint64_t> size() const override { return std::nullopt; }
  std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context, this->input().open(context.input()));
  }
  AccessOrObstacle<T> random_access(const EpochContext&) const override {
    return {nullptr, "ignore_errors does not know how many elements it drops; put it behind"};
  }

 private:
  class Pass final : public StageIterator<T> {
   public:
    Pass(const IgnoreErrorsStage& stage, const EpochContext& context,
         std::unique_ptr<StageIterator<T>> input)
        : StageIterator<T>(stage, context), stage_(stage), input_(std::move(input)) {}

   protected:
    void do_pull(Chunk<T>& out, std::size_t most) override {
      while (out.empty() && input_->pull(chunk_, most) > 0) {
        if (chunk_.failures().empty()) {
          std::swap(out, chunk_);
          return;
        }
        chunk_.drain([&](Element<T>& element) { out.add(std::move(element)); },
                     [&](std::exception_ptr error) { drop_or_pass(std::move(error), out); });
      }
    }
    void do_save(PositionWriter& writer) const override {
      writer.number(dropped_);
      input_->save(writer);
    }
    void do_restore(PositionReader& reader) override {
      dropped_ = reader.number();
      input_->restore(reader);
    }

   private:
    void drop_or_pass(std::exception_ptr error, Chunk<T>& out) {
      try {
        std::rethrow_exception(error);
      } catch (Error& failure) {
        if (dropped_ < stage_.budget_) {
          log_dropped_element(failure, ++dropped_, stage_.budget_);
        } else {
          failure.add_context(
              fmt::format("after {} elements that ignore_errors dropped", stage_.budget_));
          out.fail(std::move(error));
        }
      } catch (...) {
        out.fail(std::move(error));
      }
    }

    const IgnoreErrorsStage& stage_;
    std::unique_ptr<StageIterator<T>> input_;
    std::uint64_t dropped_ = 0;
    Chunk<T> chunk_;
  };

  std::uint64_t budget_;
};

}  // namespace muster
