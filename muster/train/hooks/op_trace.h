#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace muster {

/// Records, from its construction to stop(), when which thread of this process ran which libtorch
/// operator, backward function or RECORD_USER_SCOPE. What a GPU does behind a launch is not seen.
/// Several traces may run at once; each sees everything.
class OpTrace {
 public:
  OpTrace();
  ~OpTrace();
  OpTrace(const OpTrace&) = delete;
  OpTrace& operator=(const OpTrace&) = delete;

  /// Records no more.
  void stop();
  /// The recorded operators in Chrome's trace format, for chrome://tracing or Perfetto. With
  /// `show_dataflow` an arrow leads from each forward operator to its backward function. Only after
  /// stop().
  std::string chrome_json(bool show_dataflow) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
