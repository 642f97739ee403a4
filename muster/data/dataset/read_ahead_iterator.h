#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "muster/data/dataset/read_ahead.h"
#include "muster/data/dataset/stage.h"

namespace muster {

/// A pass whose elements are made by threads, one element out for each one in. Its position is a
/// snapshot of the input's, taken when a piece was, and the number of events since.
///
/// `Work` is called as work(Chunk<In>&, Chunk<Out>&), by several threads.
template <typename In, typename Out, typename Work>
class ReadAheadIterator final : public StageIterator<Out> {
 public:
  ReadAheadIterator(const StageBase& stage, const EpochContext& context,
                    std::unique_ptr<StageIterator<In>> input, Work work, ReadAhead::Options options)
      : StageIterator<Out>(stage, context),
        producer_(std::move(input), std::move(work), options.ordered),
        options_(std::move(options)) {
    options_.stage = stage.label();
  }

  std::uint64_t skip(std::uint64_t events) override {
    if (!threads_) return producer_.input().skip(events);
    return this->skip_by_pulling(events);
  }

 protected:
  void do_pull(Chunk<Out>& out, std::size_t most) override {
    if (!threads_) start();
    if (!next_piece()) return;
    Chunk<Out>& ready = piece_->out;
    if (given_ == 0 && ready.events() <= most) {
      std::swap(out, ready);
      given_ = out.events();
      piece_events_ = given_;
    } else {
      give_some(ready, out, most);
    }
    since_snapshot_ += out.events();
  }

  void do_save(PositionWriter& writer) const override {
    if (!options_.ordered) {
      throw FailedPrecondition(
          "the position cannot be saved: stage {} gives elements in no fixed order; use "
          "map(..., {{.ordered = true}})",
          options_.stage);
    }
    const Snapshot snapshot = threads_ ? snapshot_ : producer_.snapshot();
    if (snapshot.obstacle) std::rethrow_exception(snapshot.obstacle);
    writer.number(threads_ ? since_snapshot_ : 0);
    writer.nested(snapshot.position);
  }
  void do_restore(PositionReader& reader) override {
    const std::uint64_t since = reader.number();
    PositionReader inner = reader.nested();
    producer_.input().restore(inner);
    inner.finish();
    producer_.input().skip(since);
  }

 private:
  /// The input's position, or why it has none.
  struct Snapshot {
    std::shared_ptr<const PositionWriter> position{};
    std::exception_ptr obstacle{};
  };

  struct Piece final : ReadAhead::Piece {
    Chunk<In> in;
    Chunk<Out> out;
    /// From before this piece; not every piece has one.
    std::optional<Snapshot> snapshot{};
  };

  class Producer final : public ReadAhead::Producer {
   public:
    Producer(std::unique_ptr<StageIterator<In>> input, Work work, bool resumable)
        : input_(std::move(input)), work_(std::move(work)), resumable_(resumable) {}

    StageIterator<In>& input() { return *input_; }
    Snapshot snapshot() const {
      try {
        auto position = std::make_shared<PositionWriter>();
        input_->save(*position);
        return {std::move(position), nullptr};
      } catch (...) {
        return {nullptr, std::current_exception()};
      }
    }
    // A snapshot that copies much is taken seldom: the events in between are passed over on
    // restore.
    Snapshot snapshot_ahead() {
      constexpr std::size_t kBytesPerEvent = 256;
      Snapshot taken = snapshot();
      if (taken.obstacle) resumable_ = false;
      if (taken.position) until_snapshot_ = taken.position->cost() / kBytesPerEvent;
      return taken;
    }
    std::unique_ptr<ReadAhead::Piece> take(std::size_t most) override {
      auto piece = std::make_unique<Piece>();
      if (until_snapshot_ == 0 && resumable_) piece->snapshot = snapshot_ahead();
      if (input_->pull(piece->in, most) == 0) return nullptr;
      piece->elements = piece->in.events();
      until_snapshot_ -= std::min(until_snapshot_, piece->elements);
      return piece;
    }
    void work(ReadAhead::Piece& base) override {
      auto& piece = static_cast<Piece&>(base);
      work_(piece.in, piece.out);
      piece.in.clear();
    }

   private:
    std::unique_ptr<StageIterator<In>> input_;
    Work work_;
    bool resumable_;
    std::size_t until_snapshot_ = 0;
  };

  void start() {
    if (options_.ordered) snapshot_ = producer_.snapshot_ahead();
    threads_.emplace(options_, producer_, this->counters());
  }

  // False at the end. An empty piece never comes: pieces have an event at least, one out for each
  // in.
  bool next_piece() {
    if (piece_ && given_ < piece_events_) return true;
    std::unique_ptr<ReadAhead::Piece> base = threads_->next();
    if (base == nullptr) return false;
    piece_.reset(static_cast<Piece*>(base.release()));
    given_ = 0;
    piece_events_ = piece_->out.events();
    if (piece_->snapshot) {
      snapshot_ = std::move(*piece_->snapshot);
      since_snapshot_ = 0;
    }
    return true;
  }

  void give_some(Chunk<Out>& ready, Chunk<Out>& out, std::size_t most) {
    auto& failures = ready.failures();
    for (; given_ < piece_events_ && out.events() < most; ++given_) {
      if (failed_ < failures.size() && failures[failed_].before == given_ - failed_) {
        out.fail(std::move(failures[failed_++].error));
      } else {
        out.add(std::move(ready.elements()[given_ - failed_]));
      }
    }
    if (given_ == piece_events_) failed_ = 0;
  }

  Producer producer_;
  ReadAhead::Options options_;

  std::unique_ptr<Piece> piece_;
  /// Numbers of the piece's events: all of them, those given, and the failures among these.
  std::size_t piece_events_ = 0;
  std::size_t given_ = 0;
  std::size_t failed_ = 0;
  Snapshot snapshot_;
  std::uint64_t since_snapshot_ = 0;

  // Started late, so that a pass can be restored first; last, so that it ends first.
  std::optional<ReadAhead> threads_;
};

}  // namespace muster
