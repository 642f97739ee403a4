#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/dataset/element.h"
#include "muster/data/dataset/position.h"
#include "muster/data/dataset/stats.h"

namespace muster {

/// Context that a stage receives when a pass over it begins.
struct EpochContext {
  std::uint64_t epoch = 0;
  /// Where counters go; none for passes that only look for elements.
  std::shared_ptr<StatsCollector> stats{};
  /// The stage's place in the pipeline, for its counters.
  std::string place = "0";

  /// The same for a stage's input, of which there may be several.
  EpochContext input(std::size_t index = 0) const;
  EpochContext with_epoch(std::uint64_t new_epoch) const;
  EpochContext without_stats() const;
};

/// A part of a stream: the elements at index, index + count, index + 2 count, ...
struct ShardOf {
  std::uint64_t count = 1;
  std::uint64_t index = 0;

  /// How many elements of others come before the next of this part.
  std::uint64_t gap_behind(std::uint64_t given) const { return given == 0 ? index : count - 1; }
};

/// Base of all stages, whatever their elements are. Immutable, shared by threads.
class StageBase {
 public:
  virtual ~StageBase() = default;

  /// One word, the same in every version: positions name stages by it.
  virtual std::string_view kind() const = 0;
  /// The kind with its arguments, for people.
  virtual std::string label() const { return std::string(kind()); }
  /// How many elements one pass has, if that is known without making it.
  virtual std::optional<std::uint64_t> size() const { return std::nullopt; }
  /// Whether a pass is known to have no end: there is a repeat() without a count in it.
  virtual bool is_endless() const { return false; }
  /// Where an element comes from, for messages: "train.csv line 17".
  virtual std::string where(Origin origin) const { return place_in_stage(origin); }
  /// The epoch this stage was opened with when it gave the element.
  virtual std::uint64_t opening_epoch(Origin origin) const { return origin.epoch; }

 protected:
  /// Where an element is by its number in this stage alone.
  std::string place_in_stage(Origin origin) const;
};

/// One pass over a stage. Belongs to one thread at a time.
template <typename T>
class StageIterator {
 public:
  StageIterator(const StageBase& stage, const EpochContext& context)
      : StageIterator(stage.kind(), stage.label(), context) {}
  /// `kind` lives forever.
  StageIterator(std::string_view kind, const std::string& label, const EpochContext& context)
      : kind_(kind),
        counters_(context.stats ? context.stats->counters(context.place, label)
                                : std::make_shared<StageCounters>()) {}
  virtual ~StageIterator() = default;
  StageIterator(const StageIterator&) = delete;
  StageIterator& operator=(const StageIterator&) = delete;

  /// Replaces `out` by the next events, at least 1 and at most `most` (which is at least 1); none
  /// at the end. A stage takes from its input no more than it needs for these, so that between two
  /// calls the position is the consumer's. Failures that concern single elements are events; what
  /// this throws ends the pass.
  std::size_t pull(Chunk<T>& out, std::size_t most) {
    out.clear();
    do_pull(out, most);
    counters_->count(out.elements().size(), out.failures().size());
    return out.events();
  }

  /// Passes over up to `events` events, without making them where that is possible. Returns how
  /// many there were.
  virtual std::uint64_t skip(std::uint64_t events) { return skip_by_pulling(events); }

  /// Throws FailedPrecondition, naming the stage, if the pass cannot be resumed.
  void save(PositionWriter& writer) const {
    writer.stage(kind_);
    do_save(writer);
  }
  /// Only before the first pull().
  void restore(PositionReader& reader) {
    reader.expect(kind_);
    do_restore(reader);
  }

 protected:
  virtual void do_pull(Chunk<T>& out, std::size_t most) = 0;
  virtual void do_save(PositionWriter& writer) const = 0;
  virtual void do_restore(PositionReader& reader) = 0;

  std::uint64_t skip_by_pulling(std::uint64_t events) {
    Chunk<T> chunk;
    std::uint64_t skipped = 0;
    while (skipped < events) {
      chunk.clear();
      do_pull(chunk, std::min<std::uint64_t>(events - skipped, kSkipChunk));
      if (chunk.empty()) break;
      skipped += chunk.events();
    }
    return skipped;
  }
  const std::shared_ptr<StageCounters>& counters() const { return counters_; }

 private:
  static constexpr std::uint64_t kSkipChunk = 256;

  std::string_view kind_;
  std::shared_ptr<StageCounters> counters_;
};

/// Elements by their place in the stream. Belongs to one thread.
template <typename T>
class RandomAccess {
 public:
  virtual ~RandomAccess() = default;
  virtual std::uint64_t size() const = 0;
  /// Element of the pass at this place, which must be below size(); throws where it has a failure.
  virtual Element<T> at(std::uint64_t place) = 0;
};

/// A pass that is known to have `size()` elements and no failure, before any of them is made. Its
/// elements go by their places, and are made as they are asked for.
template <typename T>
class KnownPass : public RandomAccess<T> {
 public:
  virtual Origin origin(std::uint64_t place) const = 0;
  /// Where the element of this origin is. Throws if the pass has none.
  virtual std::uint64_t place(Origin origin) const = 0;
  /// The position of the stage's iterator when it has given this many elements: each reads the
  /// other's.
  virtual void save(PositionWriter& writer, std::uint64_t given) const = 0;
  virtual std::uint64_t restore(PositionReader& reader) const = 0;
};

/// Random access, or the reason why there is none and how to change that.
template <typename T>
struct AccessOrObstacle {
  std::unique_ptr<RandomAccess<T>> access{};
  std::string obstacle{};
};

/// The recipe of one step of a pipeline. Immutable, shared by datasets, iterators and threads.
template <typename T>
class Stage : public StageBase {
 public:
  /// Starts a pass. The stage must outlive the iterator.
  virtual std::unique_ptr<StageIterator<T>> open(const EpochContext& context) const = 0;

  /// Starts a pass over a part, without making the other elements where that is possible.
  virtual std::unique_ptr<StageIterator<T>> open_shard(const EpochContext& context,
                                                       const ShardOf& part) const;

  virtual AccessOrObstacle<T> random_access(const EpochContext& context) const {
    (void)context;
    return {nullptr, label() + " gives no random access"};
  }

  /// The pass with all that is known of it, or nothing while too little is. A stage that is asked
  /// may learn it from the passes that follow.
  virtual std::unique_ptr<KnownPass<T>> known_pass(const EpochContext& context) const {
    (void)context;
    return nullptr;
  }

  /// The elements of these origins (ascending, each once), in their order: how a resumed pass gets
  /// back the elements that it held. By default the whole pass is replayed, up to the last one.
  virtual std::vector<Element<T>> collect(const EpochContext& context,
                                          std::span<const Origin> origins) const {
    return collect_by_replay(context, origins, /*ascending=*/false);
  }

 protected:
  /// `ascending`: the pass has its origins in order, so one beyond the last wanted ends the search.
  std::vector<Element<T>> collect_by_replay(const EpochContext& context,
                                            std::span<const Origin> origins, bool ascending) const;
};

/// Says that an element which a position names is not there any more.
[[noreturn]] void throw_missing_element(const StageBase& stage, Origin origin);
/// Throws InvalidArgument where a position names an element twice at a stage of this kind.
std::vector<Origin> sorted_once(std::vector<Origin> origins, std::string_view kind);

/// The current exception with what was being done added; ours keep their code and type, others
/// become an Error with their message. Only inside a catch block.
std::exception_ptr current_failure(std::string_view doing);

/// Multiplies and adds, for packing numbers into an ordinal. Throws OutOfRange, naming the stage.
std::uint64_t checked_pack(std::uint64_t high, std::uint64_t radix, std::uint64_t low,
                           std::string_view stage);

template <typename T>
std::vector<Element<T>> Stage<T>::collect_by_replay(const EpochContext& context,
                                                    std::span<const Origin> origins,
                                                    bool ascending) const {
  constexpr std::size_t kChunk = 256;
  std::vector<std::optional<Element<T>>> found(origins.size());
  std::size_t missing = origins.size();
  const auto iterator = open(context.without_stats());
  bool beyond = false;
  for (Chunk<T> chunk; missing > 0 && !beyond && iterator->pull(chunk, kChunk) > 0;) {
    for (Element<T>& element : chunk.elements()) {
      const auto place = std::lower_bound(origins.begin(), origins.end(), element.origin);
      if (place == origins.end()) beyond = beyond || ascending;
      if (place == origins.end() || *place != element.origin) continue;
      found[static_cast<std::size_t>(place - origins.begin())] = std::move(element);
      --missing;
    }
  }
  std::vector<Element<T>> elements;
  elements.reserve(origins.size());
  for (std::size_t i = 0; i < origins.size(); ++i) {
    if (!found[i]) throw_missing_element(*this, origins[i]);
    elements.push_back(std::move(*found[i]));
  }
  return elements;
}

/// A stage with one input.
template <typename In, typename Out = In>
class UnaryStage : public Stage<Out> {
 public:
  explicit UnaryStage(std::shared_ptr<const Stage<In>> input) : input_(std::move(input)) {}

  std::string where(Origin origin) const override { return input_->where(origin); }
  std::uint64_t opening_epoch(Origin origin) const override {
    return input_->opening_epoch(origin);
  }
  std::optional<std::uint64_t> size() const override { return input_->size(); }
  bool is_endless() const override { return input_->is_endless(); }

 protected:
  const Stage<In>& input() const { return *input_; }
  const std::shared_ptr<const Stage<In>>& shared_input() const { return input_; }

 private:
  std::shared_ptr<const Stage<In>> input_;
};

/// A stage that passes on some elements of its input, in whatever order, as they are.
template <typename T>
class PassingStage : public UnaryStage<T> {
 public:
  using UnaryStage<T>::UnaryStage;

  std::vector<Element<T>> collect(const EpochContext& context,
                                  std::span<const Origin> origins) const override {
    return this->input().collect(context.input(), origins);
  }
};

/// The elements of these origins in any order, each once, from a stage.
template <typename T>
std::vector<Element<T>> collect_unsorted(const Stage<T>& stage, const EpochContext& context,
                                         const std::vector<Origin>& origins) {
  const std::vector<Origin> sorted = sorted_once(origins, stage.kind());
  std::vector<Element<T>> found = stage.collect(context, sorted);
  std::vector<Element<T>> elements;
  elements.reserve(origins.size());
  for (const Origin& origin : origins) {
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), origin);
    elements.push_back(std::move(found[static_cast<std::size_t>(place - sorted.begin())]));
  }
  return elements;
}

}  // namespace muster

#include "muster/data/dataset/shard_access.h"  // IWYU pragma: keep, defines Stage<T>::open_shard
