#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/dataset/stage.h"

namespace muster {

/// How interleave packs the number of an outer element and that of an inner one.
struct InterleavedOrdinal {
  std::uint64_t outer = 0;
  std::uint64_t inner = 0;

  static constexpr unsigned kInnerBits = 40;
  static InterleavedOrdinal unpack(std::uint64_t packed);
  /// Throws OutOfRange beyond 2^24 outer or 2^40 inner elements.
  std::uint64_t pack() const;
};

/// Makes a dataset of each element and reads several of them in turns: block_length elements from
/// one, then the next. When one ends, the next element takes its place.
template <typename In, typename Fn, typename Out>
class InterleaveStage final : public UnaryStage<In, Out> {
 public:
  InterleaveStage(std::shared_ptr<const Stage<In>> input, Fn fn, std::size_t cycle_length,
                  std::size_t block_length)
      : UnaryStage<In, Out>(std::move(input)),
        fn_(std::move(fn)),
        cycle_length_(cycle_length),
        block_length_(block_length) {
    if (cycle_length == 0 || block_length == 0) {
      throw InvalidArgument("interleave needs a positive cycle_length and block_length: {}, {}",
                            cycle_length, block_length);
    }
  }

  std::string_view kind() const override { return "interleave"; }
  std::string label() const override {
    return fmt::format("interleave({}, {})", cycle_length_, block_length_);
  }
  std::optional<std::uint64_t> size() const override { return std::nullopt; }
  std::string where(Origin origin) const override {
    const auto part = InterleavedOrdinal::unpack(origin.ordinal);
    auto outer = collect_outer(EpochContext{}, {{origin.epoch, part.outer}});
    return make(std::move(outer.front()))->where({origin.epoch, part.inner});
  }
  std::uint64_t opening_epoch(Origin origin) const override {
    const auto part = InterleavedOrdinal::unpack(origin.ordinal);
    return this->input().opening_epoch({origin.epoch, part.outer});
  }
  std::unique_ptr<StageIterator<Out>> open(const EpochContext& context) const override {
    return std::make_unique<Pass>(*this, context);
  }
  AccessOrObstacle<Out> random_access(const EpochContext&) const override {
    return {nullptr, label() + " gives no random access; read the files with from_files() instead"};
  }
  std::vector<Element<Out>> collect(const EpochContext& context,
                                    std::span<const Origin> origins) const override {
    std::vector<Element<Out>> elements;
    elements.reserve(origins.size());
    // Origins are sorted, so those of one outer element are adjacent.
    for (std::size_t begin = 0; begin < origins.size();) {
      const Origin outer = outer_of(origins[begin]);
      std::vector<Origin> wanted;
      std::size_t end = begin;
      for (; end < origins.size() && outer_of(origins[end]) == outer; ++end) {
        wanted.push_back({outer.epoch, InterleavedOrdinal::unpack(origins[end].ordinal).inner});
      }
      const auto dataset = make(std::move(collect_outer(context, {outer}).front()));
      auto found = dataset->collect(inner_context(context, outer).without_stats(), wanted);
      for (std::size_t i = 0; i < found.size(); ++i) {
        elements.push_back({std::move(found[i].value), origins[begin + i]});
      }
      begin = end;
    }
    return elements;
  }

 private:
  using Inner = std::shared_ptr<const Stage<Out>>;

  static Origin outer_of(Origin origin) {
    return {origin.epoch, InterleavedOrdinal::unpack(origin.ordinal).outer};
  }
  static EpochContext inner_context(const EpochContext& context, Origin outer) {
    return context.input(1).with_epoch(outer.epoch);
  }
  Inner make(Element<In> element) const {
    return std::invoke(fn_, std::move(element.value)).stage();
  }
  std::vector<Element<In>> collect_outer(const EpochContext& context,
                                         const std::vector<Origin>& origins) const {
    return collect_unsorted(this->input(), context.input(), origins);
  }

  class Pass final : public StageIterator<Out> {
   public:
    Pass(const InterleaveStage& stage, const EpochContext& context)
        : StageIterator<Out>(stage, context),
          stage_(stage),
          context_(context),
          input_(stage.input().open(context.input())),
          slots_(stage.cycle_length_) {}

   protected:
    void do_pull(Chunk<Out>& out, std::size_t most) override {
      // A whole round without an event is the end.
      for (std::size_t idle = 0; out.empty() && idle <= slots_.size();) {
        if (!slots_[current_].pass && !open_next(out)) {
          next_slot();
          ++idle;
        } else if (slots_[current_].pass) {
          read_current(out, most);
          idle = 0;
        }
      }
    }
    void do_save(PositionWriter& writer) const override {
      writer.number(slots_.size());
      writer.number(stage_.block_length_);
      writer.number(current_);
      writer.number(in_block_);
      writer.number(input_ended_ ? 1 : 0);
      std::vector<Origin> open;
      for (const Slot& slot : slots_) {
        writer.number(slot.pass ? 1 : 0);
        if (slot.pass) open.push_back(slot.origin);
      }
      writer.origins(std::move(open));
      for (const Slot& slot : slots_) {
        if (slot.pass) slot.pass->save(writer);
      }
      input_->save(writer);
    }
    void do_restore(PositionReader& reader) override {
      const std::uint64_t cycle_length = reader.number();
      const std::uint64_t block_length = reader.number();
      current_ = reader.number();
      in_block_ = reader.number();
      if (cycle_length != slots_.size() || block_length != stage_.block_length_ ||
          current_ >= cycle_length || in_block_ >= block_length) {
        throw InvalidArgument("position was saved at interleave({}, {}), but this pipeline has {}",
                              cycle_length, block_length, stage_.label());
      }
      input_ended_ = reader.number() != 0;
      std::vector<Slot*> open;
      for (Slot& slot : slots_) {
        if (reader.number() != 0) open.push_back(&slot);
      }
      auto outer = stage_.collect_outer(context_, reader.origins());
      if (outer.size() != open.size()) {
        throw InvalidArgument("position names {} open inputs of interleave, and has {}",
                              open.size(), outer.size());
      }
      for (std::size_t i = 0; i < open.size(); ++i) open_slot(*open[i], std::move(outer[i]));
      for (Slot* slot : open) slot->pass->restore(reader);
      input_->restore(reader);
    }

   private:
    /// One of the datasets that are read in turns. The stage must outlive its pass.
    struct Slot {
      Origin origin{};
      Inner dataset{};
      std::unique_ptr<StageIterator<Out>> pass{};
    };

    void open_slot(Slot& slot, Element<In> element) {
      slot.pass.reset();
      slot.origin = element.origin;
      slot.dataset = stage_.make(std::move(element));
      slot.pass = slot.dataset->open(inner_context(context_, slot.origin));
    }
    // Whether something came of it: a dataset, or a failure in `out`.
    bool open_next(Chunk<Out>& out) {
      if (input_ended_ || input_->pull(outer_, 1) == 0) {
        input_ended_ = true;
        return false;
      }
      outer_.drain(
          [&](Element<In>& element) {
            const Origin origin = element.origin;
            try {
              open_slot(slots_[current_], std::move(element));
            } catch (...) {
              slots_[current_].pass.reset();
              out.fail(current_failure("interleave of " + stage_.input().where(origin)));
            }
          },
          [&](std::exception_ptr error) { out.fail(std::move(error)); });
      return true;
    }
    void read_current(Chunk<Out>& out, std::size_t most) {
      Slot& slot = slots_[current_];
      const std::size_t left = stage_.block_length_ - in_block_;
      if (slot.pass->pull(out, std::min(most, left)) == 0) {
        slot.pass.reset();
        in_block_ = 0;
        return;  // the next element takes this place, in this turn
      }
      for (Element<Out>& element : out.elements()) {
        element.origin = number(slot.origin, element.origin);
      }
      in_block_ += out.events();
      if (in_block_ == stage_.block_length_) next_slot();
    }
    static Origin number(Origin outer, Origin inner) {
      if (inner.epoch != outer.epoch) {
        throw InvalidArgument(
            "interleave cannot number the rounds of a repeat inside it; put "
            "repeat behind interleave");
      }
      return {outer.epoch, InterleavedOrdinal{outer.ordinal, inner.ordinal}.pack()};
    }
    void next_slot() {
      current_ = (current_ + 1) % slots_.size();
      in_block_ = 0;
    }

    const InterleaveStage& stage_;
    EpochContext context_;
    std::unique_ptr<StageIterator<In>> input_;
    std::vector<Slot> slots_;
    std::size_t current_ = 0;
    std::size_t in_block_ = 0;
    bool input_ended_ = false;
    Chunk<In> outer_;
  };

  Fn fn_;
  std::size_t cycle_length_;
  std::size_t block_length_;
};

}  // namespace muster
