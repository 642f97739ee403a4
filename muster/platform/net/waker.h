#pragma once

namespace muster::net {

/// Ends waits at sockets from another thread: threads that wait with it wake while it is set. A
/// wait that begins then ends at once. One thread at a time sets and resets it.
class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  void set() noexcept;
  void reset() noexcept;
  /// Readable while it is set, for poll().
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
  bool is_set_ = false;
};

}  // namespace muster::net
