#include "muster/testing/flaky_answers.h"

#include "muster/base/random.h"

namespace muster::testing {

void FlakyAnswers::set(int percent, std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  percent_ = static_cast<std::uint64_t>(percent);
  seed_ = seed;
}

CannedResponse FlakyAnswers::answer(const HttpCall& call,
                                    const std::function<CannedResponse()>& act,
                                    const CannedResponse& refusal) {
  std::uint64_t kind = 0;
  {
    const std::lock_guard lock(mutex_);
    Random random(seed_, drawn_++, 0);
    const bool fails = random.below(100) < percent_;
    kind = fails ? 1 + random.below(6) : 0;
  }
  switch (kind) {
    case 0:
      return act();
    case 1:
      return refusal;
    case 2:
      return {.hang_up = true};
    case 3:  // Done, and not told.
      act();
      return {.hang_up = true};
    case 4:
      act();
      return refusal;
    case 5: {
      CannedResponse answer = act();
      answer.cut_after = answer.body.size() / 2;
      if (answer.body.empty() || call.method == "HEAD") answer.hang_up = true;
      return answer;
    }
    default: {
      CannedResponse answer = act();
      answer.delay = std::chrono::milliseconds(5);
      return answer;
    }
  }
}

}  // namespace muster::testing
