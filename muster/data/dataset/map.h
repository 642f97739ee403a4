#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/dataset/stage.h"

namespace muster {

struct MapOptions {
  /// Threads that call the function. 1 calls it in the consumer's thread, 0 takes one thread a
  /// processor.
  std::size_t parallelism = 1;
  /// Whether elements keep their order. Without it they come as they are ready, and the pipeline
  /// cannot be resumed.
  bool ordered = true;
  /// For functions that take a Random: theirs is keyed by (seed, epoch, element number).
  std::uint64_t seed = 0;
};

/// Calls a map function on elements of one stage. Safe to use from several threads. A stage knows
/// its function by this alone, so that two functions of the same types share the code of a stage;
/// it is called once per chunk.
template <typename In, typename Out>
class Mapper {
 public:
  virtual ~Mapper() = default;
  /// Turns every event of `in` into one of `out`; a call that throws gives a failure that says
  /// which element it was.
  virtual void map(Chunk<In>& in, Chunk<Out>& out) const = 0;
  virtual Element<Out> map(Element<In> element) const = 0;

  std::vector<Element<Out>> map(std::vector<Element<In>> elements) const {
    std::vector<Element<Out>> mapped;
    mapped.reserve(elements.size());
    for (Element<In>& element : elements) mapped.push_back(map(std::move(element)));
    return mapped;
  }
};

template <typename In, typename Fn>
constexpr bool takes_random = std::is_invocable_v<const Fn&, In&&, Random&>;

template <typename In, typename Fn>
auto mapped_type() {
  static_assert(takes_random<In, Fn> || std::is_invocable_v<const Fn&, In&&>,
                "a map function takes an element, or an element and a muster::Random&, and has no "
                "state that it changes");
  if constexpr (takes_random<In, Fn>) {
    return std::type_identity<
        std::remove_cvref_t<std::invoke_result_t<const Fn&, In&&, Random&>>>{};
  } else {
    return std::type_identity<std::remove_cvref_t<std::invoke_result_t<const Fn&, In&&>>>{};
  }
}
/// Type of the elements that `Fn` makes of an `In`.
template <typename In, typename Fn>
using Mapped = typename decltype(mapped_type<In, Fn>())::type;

/// The mapper of one function.
template <typename In, typename Fn>
class FunctionMapper final : public Mapper<In, Mapped<In, Fn>> {
 public:
  using Out = Mapped<In, Fn>;

  FunctionMapper(const Stage<In>& input, Fn fn, std::uint64_t seed)
      : input_(input), fn_(std::move(fn)), seed_(seed) {}

  void map(Chunk<In>& in, Chunk<Out>& out) const override {
    in.drain(
        [&](Element<In>& element) {
          const Origin origin = element.origin;
          try {
            out.add(call(std::move(element)), origin);
          } catch (...) {
            out.fail(failure_at(origin));
          }
        },
        [&](std::exception_ptr error) { out.fail(std::move(error)); });
  }
  Element<Out> map(Element<In> element) const override {
    const Origin origin = element.origin;
    try {
      return {call(std::move(element)), origin};
    } catch (...) {
      std::rethrow_exception(failure_at(origin));
    }
  }

 private:
  Out call(Element<In>&& element) const {
    if constexpr (takes_random<In, Fn>) {
      Random random(seed_, element.origin.epoch, element.origin.ordinal);
      return std::invoke(fn_, std::move(element.value), random);
    } else {
      return std::invoke(fn_, std::move(element.value));
    }
  }
  std::exception_ptr failure_at(Origin origin) const {
    return current_failure("map of " + input_.where(origin));
  }

  const Stage<In>& input_;
  Fn fn_;
  std::uint64_t seed_;
};

/// Random access through a map function.
template <typename In, typename Out>
class MappedAccess final : public RandomAccess<Out> {
 public:
  MappedAccess(std::unique_ptr<RandomAccess<In>> access, const Mapper<In, Out>& mapper)
      : access_(std::move(access)), mapper_(mapper) {}
  std::uint64_t size() const override { return access_->size(); }
  Element<Out> at(std::uint64_t place) override { return mapper_.map(access_->at(place)); }

 private:
  std::unique_ptr<RandomAccess<In>> access_;
  const Mapper<In, Out>& mapper_;
};

/// Common base of serial and parallel maps: all but the pass itself.
template <typename In, typename Out>
class MapStageBase : public UnaryStage<In, Out> {
 public:
  /// The mapper's input is `input`.
  MapStageBase(std::shared_ptr<const Stage<In>> input,
               std::unique_ptr<const Mapper<In, Out>> mapper)
      : UnaryStage<In, Out>(std::move(input)), mapper_(std::move(mapper)) {}

  std::unique_ptr<StageIterator<Out>> open(const EpochContext& context) const override {
    return pass_over(this->input().open(context.input()), context);
  }
  // A part of the results is the results of a part, so the others' elements are never made.
  std::unique_ptr<StageIterator<Out>> open_shard(const EpochContext& context,
                                                 const ShardOf& part) const override {
    return pass_over(this->input().open_shard(context.input(), part), context);
  }
  AccessOrObstacle<Out> random_access(const EpochContext& context) const override {
    AccessOrObstacle<In> inner = this->input().random_access(context.input());
    if (inner.access == nullptr) return {nullptr, std::move(inner.obstacle)};
    return {std::make_unique<MappedAccess<In, Out>>(std::move(inner.access), *mapper_), {}};
  }
  std::vector<Element<Out>> collect(const EpochContext& context,
                                    std::span<const Origin> origins) const override {
    return mapper_->map(this->input().collect(context.input(), origins));
  }

 protected:
  virtual std::unique_ptr<StageIterator<Out>> pass_over(std::unique_ptr<StageIterator<In>> input,
                                                        const EpochContext& context) const = 0;
  const Mapper<In, Out>& mapper() const { return *mapper_; }

 private:
  std::unique_ptr<const Mapper<In, Out>> mapper_;
};

/// A map in the consumer's thread.
template <typename In, typename Out>
class MapStage final : public MapStageBase<In, Out> {
 public:
  using MapStageBase<In, Out>::MapStageBase;

  std::string_view kind() const override { return "map"; }

 protected:
  std::unique_ptr<StageIterator<Out>> pass_over(std::unique_ptr<StageIterator<In>> input,
                                                const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context, std::move(input));
  }

 private:
  class Pass final : public StageIterator<Out> {
   public:
    Pass(const MapStage& stage, const EpochContext& context,
         std::unique_ptr<StageIterator<In>> input)
        : StageIterator<Out>(stage, context), stage_(stage), input_(std::move(input)) {}

    std::uint64_t skip(std::uint64_t events) override { return input_->skip(events); }

   protected:
    void do_pull(Chunk<Out>& out, std::size_t most) override {
      input_->pull(chunk_, most);
      out.reserve(chunk_.events());
      stage_.mapper().map(chunk_, out);
      chunk_.clear();
    }
    void do_save(PositionWriter& writer) const override { input_->save(writer); }
    void do_restore(PositionReader& reader) override { input_->restore(reader); }

   private:
    const MapStage& stage_;
    std::unique_ptr<StageIterator<In>> input_;
    Chunk<In> chunk_;
  };
};

}  // namespace muster
