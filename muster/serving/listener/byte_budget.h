#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace muster::serving {

/// Bytes that many holders share: what all requests of a server together may take. Any thread may
/// use it.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t limit) : limit_(limit) {}

  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_.load(); }

  /// Bytes that one holder has reserved, released on destruction. One thread at a time.
  class Hold {
   public:
    explicit Hold(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
    ~Hold() { release(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    /// Has this many bytes at least from now on. False, and nothing changes, when they are not
    /// there.
    bool grow_to(std::size_t bytes) {
      if (bytes <= held_) return true;
      const std::size_t more = bytes - held_;
      if (budget_->used_.fetch_add(more) + more > budget_->limit_) {
        budget_->used_ -= more;
        return false;
      }
      held_ = bytes;
      return true;
    }
    void release() {
      if (held_ > 0) budget_->used_ -= held_;
      held_ = 0;
    }

   private:
    std::shared_ptr<ByteBudget> budget_;
    std::size_t held_ = 0;
  };

 private:
  std::size_t limit_;
  std::atomic<std::size_t> used_{0};
};

}  // namespace muster::serving
