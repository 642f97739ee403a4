#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "muster/data/dataset/stats.h"

namespace muster {

/// The threads behind prefetch and parallel map. Each takes a piece of work from the input, one
/// thread at a time, does it beside the others, and the consumer gets the pieces in the order in
/// which they were taken (or, unordered, in which they were done).
///
/// Pieces adapt: they hold many elements where elements are cheap, so that handing over costs
/// little, and few where they are dear, so that the consumer soon has the first.
class ReadAhead {
 public:
  /// A piece of work, and later its result.
  struct Piece {
    virtual ~Piece() = default;
    /// How many elements it has; its producer says so.
    std::size_t elements = 0;
  };

  /// Work of the threads. Failures of elements are part of the results; an exception of these
  /// functions is thrown again at the consumer, and ends the pass.
  class Producer {
   public:
    virtual ~Producer() = default;
    /// Takes at most `most` elements from the input; nothing at its end. Never called by two
    /// threads at once.
    virtual std::unique_ptr<Piece> take(std::size_t most) = 0;
    /// Called by several threads at once, each with a piece of its own.
    virtual void work(Piece& piece) = 0;
  };

  struct Options {
    /// In messages: "parallel_map(4)".
    std::string stage{};
    std::size_t threads = 1;
    bool ordered = true;
    /// Elements that may be ready or in the making, if at least one piece is.
    std::size_t max_elements = 1;
    std::size_t max_pieces = 1;
    std::size_t max_piece_elements = 1;
  };

  /// Starts the threads. The producer must outlive this.
  ReadAhead(Options options, Producer& producer, std::shared_ptr<StageCounters> counters);
  /// Lets each thread end the piece it is at, and drops the rest.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The next piece, done; nothing at the end. Only the consumer calls it.
  std::unique_ptr<Piece> next();

 private:
  using Clock = std::chrono::steady_clock;
  /// A piece's place in the order; empty while it is being worked on.
  struct Slot {
    std::uint64_t number = 0;
    std::unique_ptr<Piece> piece{};
  };

  void run(const std::stop_token& stop);
  bool may_take(const std::stop_token& stop) const;
  bool take_and_work(std::unique_lock<std::mutex>& lock);
  /// Gives a piece that was taken its number; nothing if the input has ended.
  std::optional<std::uint64_t> enter(const Piece* piece, std::size_t most);
  void deliver(std::uint64_t number, std::unique_ptr<Piece> piece);
  void fail(std::exception_ptr error);
  bool ready() const;
  bool has_room() const;
  void adapt(std::size_t elements, Clock::duration time);
  void count_queue();

  const Options options_;
  Producer& producer_;
  const std::shared_ptr<StageCounters> counters_;

  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable done_;
  /// In order: all pieces taken and not consumed. Unordered: those that are done.
  std::deque<Slot> slots_;
  std::uint64_t next_number_ = 0;
  std::size_t pieces_out_ = 0;
  std::size_t elements_out_ = 0;
  std::size_t piece_elements_ = 1;
  bool taking_ = false;
  bool input_ended_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;

  // Last, so that they end before what they use.
  std::vector<std::jthread> threads_;
};

}  // namespace muster
