#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace muster::testing {

/// A copy of the test's process that runs `body` and exits with what it returns; killed when this
/// goes out of scope. Make it before the test makes threads: the copy has none of them, but all
/// their locks.
class Forked {
 public:
  /// In the copy, `hear` gives the next line that the test told it.
  using Body = std::function<int(const std::function<std::string()>& hear)>;

  explicit Forked(const Body& body);
  ~Forked();
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;

  void tell(const std::string& line) const;
  void send(int signal) const;
  /// Waits until it has stopped (after SIGSTOP).
  void wait_until_stopped() const;
  /// Waits for its end: the exit status, or 128 + n if signal n ended it.
  int wait();

 private:
  pid_t process_ = -1;
  int to_child_ = -1;
  bool ended_ = false;
};

}  // namespace muster::testing
