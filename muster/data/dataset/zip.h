#pragma once

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "muster/data/dataset/stage.h"

namespace muster {

/// Elements of several streams side by side, as tuples, until the shortest ends. Where one stream
/// has a failure, the tuple is that failure.
template <typename... Ts>
class ZipStage final : public Stage<std::tuple<Ts...>> {
 public:
  using Out = std::tuple<Ts...>;
  explicit ZipStage(std::shared_ptr<const Stage<Ts>>... inputs) : inputs_(std::move(inputs)...) {}

  std::string_view kind() const override { return "zip"; }
  std::optional<std::uint64_t> size() const override {
    std::optional<std::uint64_t> least;
    bool known = true;
    const auto look = [&](const StageBase& input) {
      const auto size = input.size();
      known = known && size.has_value();
      if (size && (!least || *size < *least)) least = size;
    };
    std::apply([&](const auto&... input) { (look(*input), ...); }, inputs_);
    return known ? least : std::nullopt;
  }
  std::unique_ptr<StageIterator<Out>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context, std::index_sequence_for<Ts...>{});
  }
  std::vector<Element<Out>> collect(const EpochContext& context,
                                    std::span<const Origin> origins) const override {
    return this->collect_by_replay(context, origins, /*ascending=*/true);
  }

 private:
  /// One stream and the event that is being paired.
  template <typename T>
  struct Side {
    std::unique_ptr<StageIterator<T>> input;
    Chunk<T> one{};
  };

  class Pass final : public StageIterator<Out> {
   public:
    template <std::size_t... I>
    Pass(const ZipStage& stage, const EpochContext& context, std::index_sequence<I...>)
        : StageIterator<Out>(stage, context),
          sides_(Side<Ts>{std::get<I>(stage.inputs_)->open(context.input(I))}...),
          epoch_(context.epoch) {}

   protected:
    void do_pull(Chunk<Out>& out, std::size_t most) override {
      while (!ended_ && out.events() < most) {
        // All sides take a step, also after one that has ended, so that they stay in line.
        std::apply([&](auto&... side) { ((ended_ |= side.input->pull(side.one, 1) == 0), ...); },
                   sides_);
        if (!ended_) pair_up(out);
      }
    }
    void do_save(PositionWriter& writer) const override {
      writer.number(number_);
      writer.number(ended_ ? 1 : 0);
      std::apply([&](const auto&... side) { (side.input->save(writer), ...); }, sides_);
    }
    void do_restore(PositionReader& reader) override {
      number_ = reader.number();
      ended_ = reader.number() != 0;
      std::apply([&](auto&... side) { (side.input->restore(reader), ...); }, sides_);
    }

   private:
    void pair_up(Chunk<Out>& out) {
      const Origin origin{epoch_, number_++};
      std::exception_ptr failure;
      const auto look = [&](auto& side) {
        if (!failure && side.one.elements().empty()) {
          failure = std::move(side.one.failures().front().error);
        }
      };
      std::apply([&](auto&... side) { (look(side), ...); }, sides_);
      if (failure) {
        out.fail(std::move(failure));
        return;
      }
      std::apply(
          [&](auto&... side) {
            out.add(Out(std::move(side.one.elements().front().value)...), origin);
          },
          sides_);
    }

    std::tuple<Side<Ts>...> sides_;
    std::uint64_t epoch_;
    std::uint64_t number_ = 0;
    bool ended_ = false;
  };

  std::tuple<std::shared_ptr<const Stage<Ts>>...> inputs_;
};

}  // namespace muster
