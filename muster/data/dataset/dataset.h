#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/data/dataset/batch.h"
#include "muster/data/dataset/cache.h"
#include "muster/data/dataset/concatenate.h"
#include "muster/data/dataset/filter.h"
#include "muster/data/dataset/generate.h"
#include "muster/data/dataset/global_shuffle.h"
#include "muster/data/dataset/ignore_errors.h"
#include "muster/data/dataset/indexed_source.h"
#include "muster/data/dataset/interleave.h"
#include "muster/data/dataset/iterator.h"
#include "muster/data/dataset/map.h"
#include "muster/data/dataset/padded_batch.h"
#include "muster/data/dataset/parallel_map.h"
#include "muster/data/dataset/prefetch.h"
#include "muster/data/dataset/record_files.h"
#include "muster/data/dataset/repeat.h"
#include "muster/data/dataset/shard.h"
#include "muster/data/dataset/shuffle.h"
#include "muster/data/dataset/slice.h"
#include "muster/data/dataset/stage.h"
#include "muster/data/dataset/zip.h"

namespace muster {

/// A recipe for a stream of elements: copying it copies the recipe, not the data. Every function
/// gives a new recipe and leaves this one as it is. Elements need to be movable.
///
/// The same recipe with the same seeds gives the same stream in every run, whatever the
/// parallelism, the prefetching, or the number of times it was saved and resumed.
///
/// Functions that are given to a dataset must be pure: they are called again after a resume, by
/// several threads under a parallel map, and they throw muster::Error to say what is wrong with an
/// element.
template <typename T>
class Dataset {
 public:
  using value_type = T;

  explicit Dataset(std::shared_ptr<const Stage<T>> stage) : stage_(std::move(stage)) {}

  /// Starts one pass; the caller owns the pass.
  std::unique_ptr<Iterator<T>> iterate() const { return std::make_unique<Iterator<T>>(stage_); }
  /// Starts where another pass of the same recipe was saved. Throws InvalidArgument, naming the
  /// stages, if the position belongs to another recipe.
  std::unique_ptr<Iterator<T>> iterate(std::string_view position) const {
    return std::make_unique<Iterator<T>>(stage_, position);
  }
  /// How many elements a pass has, if that is known without making it. Opens files.
  std::optional<std::uint64_t> size() const { return stage_->size(); }

  /// Results of `fn` for each element. `fn` takes an element, or an element and a muster::Random&
  /// whose numbers depend on the seed, the epoch and the element alone.
  template <typename Fn>
  Dataset<Mapped<T, Fn>> map(Fn fn, const MapOptions& options = {}) const {
    using Out = Mapped<T, Fn>;
    auto mapper = std::make_unique<FunctionMapper<T, Fn>>(*stage_, std::move(fn), options.seed);
    if (options.parallelism == 1 && options.ordered) {
      return Dataset<Out>(std::make_shared<MapStage<T, Out>>(stage_, std::move(mapper)));
    }
    return Dataset<Out>(
        std::make_shared<ParallelMapStage<T, Out>>(stage_, std::move(mapper), options));
  }

  /// The elements for which `predicate` holds.
  template <typename Predicate>
  Dataset filter(Predicate predicate) const {
    return Dataset(std::make_shared<FilterStage<T, Predicate>>(stage_, std::move(predicate)));
  }

  /// Makes a dataset of each element with `fn`, and reads `cycle_length` of them in turns,
  /// `block_length` elements at a time.
  template <typename Fn>
  std::invoke_result_t<const Fn&, T&&> interleave(Fn fn, std::size_t cycle_length,
                                                  std::size_t block_length = 1) const {
    using Out = typename std::invoke_result_t<const Fn&, T&&>::value_type;
    return Dataset<Out>(std::make_shared<InterleaveStage<T, Fn, Out>>(stage_, std::move(fn),
                                                                      cycle_length, block_length));
  }

  /// A random order within a window of `buffer_size` elements, a new one every epoch. A saved
  /// position names the elements in the window; a resume gets just those through an index, where
  /// there is one, else by reading the epoch again up to there.
  Dataset shuffle(std::size_t buffer_size, std::uint64_t seed) const {
    return Dataset(std::make_shared<ShuffleStage<T>>(stage_, buffer_size, seed));
  }
  /// A uniformly random order of all elements, a new one every epoch, without a buffer. Needs
  /// random access; iterate() throws FailedPrecondition without it, and says what to do.
  Dataset global_shuffle(std::uint64_t seed) const {
    return Dataset(std::make_shared<GlobalShuffleStage<T>>(stage_, seed));
  }
  /// Every `count`-th element, from `index` on: one of `count` parts that together are all.
  Dataset shard(std::uint64_t count, std::uint64_t index) const {
    return Dataset(std::make_shared<ShardStage<T>>(stage_, ShardOf{count, index}));
  }
  /// The shard that an input function is to read.
  template <typename Context>
  requires requires(const Context& context) { context.num_shards(), context.shard_index(); }
  Dataset shard(const Context& context) const {
    return shard(context.num_shards(), context.shard_index());
  }

  /// The stream again and again, each time as a new epoch; for ever without a count.
  Dataset repeat(std::optional<std::uint64_t> count = std::nullopt) const {
    return Dataset(std::make_shared<RepeatStage<T>>(stage_, count));
  }
  Dataset take(std::uint64_t count) const {
    return Dataset(std::make_shared<SliceStage<T>>(stage_, Slice::kFirst, count));
  }
  Dataset skip(std::uint64_t count) const {
    return Dataset(std::make_shared<SliceStage<T>>(stage_, Slice::kRest, count));
  }

  /// Rows of `size` elements as vectors.
  Dataset<std::vector<T>> batch(std::size_t size, Remainder remainder = Remainder::kKeep) const {
    return batch(size, AsVector<T>{}, remainder);
  }
  /// Rows of `size` elements as what `function` makes of them: it takes a std::span<const T> or a
  /// std::vector<T>.
  template <typename Collate>
  auto batch(std::size_t size, Collate function, Remainder remainder = Remainder::kKeep) const {
    using Batches = BatchStage<T, Collate>;
    return Dataset<typename Batches::Out>(
        std::make_shared<Batches>(stage_, size, remainder, std::move(function)));
  }
  /// For elements that are vectors: rows filled up with `padding` to the longest of their batch.
  template <typename Row = T>
  Dataset<PaddedBatch<typename Row::value_type>> padded_batch(
      std::size_t size, typename Row::value_type padding = {},
      Remainder remainder = Remainder::kKeep) const {
    return batch(size, PadTo<typename Row::value_type>{std::move(padding)}, remainder);
  }

  /// Keeps the elements of the first complete pass in memory.
  Dataset cache() const {
    return Dataset(
        std::make_shared<CacheStage<T>>(stage_, std::make_unique<MemoryCacheStore<T>>()));
  }
  /// Keeps them in a TFRecord file, also for later runs. The file appears when a pass is complete;
  /// remove it when the pipeline before it or its data changes.
  Dataset cache(const Path& file, CacheCodec<T> codec) const {
    return Dataset(std::make_shared<CacheStage<T>>(
        stage_, std::make_unique<FileCacheStore<T>>(file, std::move(codec))));
  }
  /// The same for records and strings; other elements need a CacheCodec.
  Dataset cache(const Path& file) const
      requires(std::is_same_v<T, Record> || std::is_same_v<T, std::string>) {
    if constexpr (std::is_same_v<T, Record>) {
      return cache(file, record_codec());
    } else {
      return cache(file, string_codec());
    }
  }

  /// Makes up to `count` elements ahead of the consumer, in a thread.
  Dataset prefetch(std::size_t count) const {
    return Dataset(std::make_shared<PrefetchStage<T>>(stage_, count));
  }
  /// This stream, then the other.
  Dataset concatenate(const Dataset& other) const {
    return Dataset(std::make_shared<ConcatenateStage<T>>(
        std::vector<std::shared_ptr<const Stage<T>>>{stage_, other.stage_}));
  }
  /// Drops up to `budget` elements of a pass that could not be made, and logs them.
  Dataset ignore_errors(std::uint64_t budget) const {
    return Dataset(std::make_shared<IgnoreErrorsStage<T>>(stage_, budget));
  }

  const std::shared_ptr<const Stage<T>>& stage() const { return stage_; }

 private:
  std::shared_ptr<const Stage<T>> stage_;
};

/// The elements of a vector.
template <typename T>
Dataset<T> from_vector(std::vector<T> values) {
  const std::uint64_t size = values.size();
  return Dataset<T>(
      indexed_source<T>("from_vector", size,
                        [values = std::move(values)](std::uint64_t i) -> T { return values[i]; }));
}

/// 0, 1, ..., count - 1.
Dataset<std::int64_t> range(std::uint64_t count);

/// fn(0), fn(1), ... until it gives nothing: fn takes a std::uint64_t and returns a
/// std::optional. It must be a pure function of its argument.
template <typename Fn>
auto generate(Fn fn) {
  using T = typename std::invoke_result_t<const Fn&, std::uint64_t>::value_type;
  return Dataset<T>(std::make_shared<GenerateStage<T, Fn>>(std::move(fn)));
}

/// Elements that a stateful function returns, until it returns none; `start` makes one for each
/// pass. The pipeline cannot be resumed.
template <typename Start>
auto from_generator(Start start) {
  using Next = std::invoke_result_t<const Start&>;
  using T = typename std::invoke_result_t<Next&>::value_type;
  return Dataset<T>(std::make_shared<GeneratorStage<T>>(std::move(start)));
}

/// Elements of several streams side by side, until the shortest ends.
template <typename... Ts>
Dataset<std::tuple<Ts...>> zip(const Dataset<Ts>&... datasets) {
  return Dataset<std::tuple<Ts...>>(std::make_shared<ZipStage<Ts...>>(datasets.stage()...));
}

// The usual elements are compiled once, in dataset.cpp, and not by every program.
extern template class Stage<std::int64_t>;
extern template class Iterator<std::int64_t>;
extern template class Dataset<std::int64_t>;
extern template class Stage<Record>;
extern template class Iterator<Record>;
extern template class Dataset<Record>;
extern template class Stage<std::vector<Record>>;
extern template class Iterator<std::vector<Record>>;

}  // namespace muster
