#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "muster/data/dataset/stage.h"

namespace muster {

/// One pass over a dataset. Belongs to one thread at a time; destroying it in mid-work ends the
/// threads it has. Made by Dataset::iterate().
template <typename T>
class Iterator {
 public:
  /// `stage` lives as long as this does.
  explicit Iterator(std::shared_ptr<const Stage<T>> stage)
      : stage_(std::move(stage)),
        stats_(std::make_shared<StatsCollector>()),
        pass_(stage_->open(EpochContext{.epoch = 0, .stats = stats_})) {}

  /// Continues after the element that was last taken when the position was saved.
  Iterator(std::shared_ptr<const Stage<T>> stage, std::string_view position)
      : Iterator(std::move(stage)) {
    PositionReader reader = PositionReader::open(position);
    pass_->restore(reader);
    reader.finish();
  }

  /// The next element, or nothing at the end. Throws where an element could not be made; the call
  /// after that continues with the next one.
  std::optional<T> next() {
    std::optional<Element<T>> element = next_element();
    if (!element) return std::nullopt;
    return std::move(element->value);
  }

  /// The same with its origin.
  std::optional<Element<T>> next_element() {
    if (pass_->pull(one_, 1) == 0) return std::nullopt;
    if (one_.elements().empty()) std::rethrow_exception(one_.failures().front().error);
    return std::move(one_.elements().front());
  }

  /// The place after the last element taken: a few bytes a stage, and a few for each element that
  /// a shuffle holds. Throws FailedPrecondition, naming the stage, where a stage cannot be resumed.
  std::string save() const {
    PositionWriter writer;
    pass_->save(writer);
    return writer.encode();
  }

  /// Statistics of each stage so far. Safe to call from any thread.
  PipelineStats stats() const { return stats_->read(); }

 private:
  std::shared_ptr<const Stage<T>> stage_;
  std::shared_ptr<StatsCollector> stats_;
  std::unique_ptr<StageIterator<T>> pass_;
  Chunk<T> one_;
};

}  // namespace muster
