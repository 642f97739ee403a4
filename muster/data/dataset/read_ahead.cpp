#include "muster/data/dataset/read_ahead.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/wait.h"

namespace muster {
namespace {

// A piece that takes less is too small to pay for handing it over; one that takes more keeps the
// consumer waiting.
constexpr std::chrono::microseconds kShortPiece{100};
constexpr std::chrono::microseconds kLongPiece{500};

}  // namespace

ReadAhead::ReadAhead(Options options, Producer& producer, std::shared_ptr<StageCounters> counters)
    : options_(std::move(options)), producer_(producer), counters_(std::move(counters)) {
  count_queue();
  threads_.reserve(options_.threads);
  for (std::size_t i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
  }
}

ReadAhead::~ReadAhead() {
  for (std::jthread& thread : threads_) thread.request_stop();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  done_.notify_all();
  threads_.clear();
}

bool ReadAhead::has_room() const {
  if (pieces_out_ == 0) return true;
  return pieces_out_ < options_.max_pieces &&
         elements_out_ + piece_elements_ <= options_.max_elements;
}

bool ReadAhead::may_take(const std::stop_token& stop) const {
  return stopping_ || stop.stop_requested() || input_ended_ || failure_ || (!taking_ && has_room());
}

void ReadAhead::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!may_take(stop)) {
      const auto start = Clock::now();
      // No stall, however long it lasts: a consumer that evaluates, saves or waits for a peer takes
      // nothing meanwhile, and what it waits for is what it reports.
      room_.wait(lock, [&] { return may_take(stop); });
      counters_->add_producer_wait(Clock::now() - start);
    }
    if (stopping_ || stop.stop_requested() || input_ended_ || failure_) return;
    try {
      if (!take_and_work(lock)) return;
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      fail(std::current_exception());
      return;
    }
  }
}

bool ReadAhead::take_and_work(std::unique_lock<std::mutex>& lock) {
  taking_ = true;
  const std::size_t most = piece_elements_;
  // Room is taken for the most it can be; what turns out to be less is given back below.
  ++pieces_out_;
  elements_out_ += most;
  lock.unlock();

  const auto start = Clock::now();
  std::unique_ptr<Piece> piece = producer_.take(most);
  std::optional<std::uint64_t> number;
  // A single thread has no other to hand the input to, and locks once per piece.
  if (options_.threads > 1 || piece == nullptr) {
    lock.lock();
    number = enter(piece.get(), most);
    if (!number) return false;
    lock.unlock();
    room_.notify_one();
  }

  producer_.work(*piece);
  const auto time = Clock::now() - start;
  const std::size_t elements = piece->elements;

  lock.lock();
  if (!number) number = enter(piece.get(), most);
  deliver(*number, std::move(piece));
  if (elements == most || time > kLongPiece) adapt(most, time);
  counters_->add_busy(time);
  count_queue();
  return true;
}

std::optional<std::uint64_t> ReadAhead::enter(const Piece* piece, std::size_t most) {
  taking_ = false;
  elements_out_ -= most;
  if (piece == nullptr) {
    --pieces_out_;
    input_ended_ = true;
    room_.notify_all();
    done_.notify_all();
    return std::nullopt;
  }
  elements_out_ += piece->elements;
  if (options_.ordered) slots_.push_back({next_number_, nullptr});
  return next_number_++;
}

void ReadAhead::deliver(std::uint64_t number, std::unique_ptr<Piece> piece) {
  if (options_.ordered) {
    slots_[number - slots_.front().number].piece = std::move(piece);
  } else {
    slots_.push_back({number, std::move(piece)});
  }
  if (ready()) done_.notify_one();
}

void ReadAhead::fail(std::exception_ptr error) {
  taking_ = false;
  failure_ = std::move(error);
  room_.notify_all();
  done_.notify_all();
}

void ReadAhead::adapt(std::size_t elements, Clock::duration time) {
  if (elements != piece_elements_) return;  // measured before the last change
  if (time < kShortPiece) {
    piece_elements_ = std::min(piece_elements_ * 2, options_.max_piece_elements);
  } else if (time > kLongPiece) {
    piece_elements_ = std::max<std::size_t>(piece_elements_ / 2, 1);
  }
}

bool ReadAhead::ready() const {
  if (failure_) return true;
  if (!slots_.empty()) return slots_.front().piece != nullptr;
  return input_ended_ && pieces_out_ == 0;
}

void ReadAhead::count_queue() {
  const std::size_t capacity =
      std::min(options_.max_elements, options_.max_pieces * piece_elements_);
  counters_->set_queue(elements_out_, capacity, options_.threads);
}

std::unique_ptr<ReadAhead::Piece> ReadAhead::next() {
  std::unique_lock lock(mutex_);
  if (!ready()) {
    const auto start = Clock::now();
    wait(
        done_, lock, Deadline::never(),
        [this] { return fmt::format("{}: the next element", options_.stage); },
        [this] { return ready(); });
    counters_->add_consumer_wait(Clock::now() - start);
  }
  if (failure_) std::rethrow_exception(failure_);
  if (slots_.empty()) return nullptr;
  std::unique_ptr<Piece> piece = std::move(slots_.front().piece);
  slots_.pop_front();
  --pieces_out_;
  elements_out_ -= piece->elements;
  count_queue();
  lock.unlock();
  room_.notify_one();
  return piece;
}

}  // namespace muster
