#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "muster/testing/http_test_server.h"

namespace muster::testing {

/// Lets a share of calls fail, chosen by a seed: refused before or after they have had their
/// effect, hung up on, answered in part, answered late. Any thread may use it.
class FlakyAnswers {
 public:
  /// Sets how many of a hundred calls fail.
  void set(int percent, std::uint64_t seed);
  /// `act()` does what was asked for; `refusal` is the store's own way to say that it is busy.
  CannedResponse answer(const HttpCall& call, const std::function<CannedResponse()>& act,
                        const CannedResponse& refusal);

 private:
  std::mutex mutex_;
  std::uint64_t percent_ = 0;
  std::uint64_t seed_ = 0;
  std::uint64_t drawn_ = 0;
};

}  // namespace muster::testing
