#include <fmt/core.h>

#include <algorithm>

#include "muster/base/log.h"
#include "muster/serving/front/ejection_internal.h"

namespace muster::serving {

std::chrono::milliseconds EjectionPauses::next() {
  constexpr std::chrono::milliseconds kFirst{1000};
  constexpr std::chrono::milliseconds kLongest{30'000};
  return std::min(kFirst * (1 << std::min(count_++, 10)), kLongest);
}

void eject(FrontServer& front, Node& node, const Ejection& ejection) {
  log::warning("node {} gets no requests: it {} {} in_flight={}", node.number, ejection.reason,
               ejection.detail, node.in_flight.load());
  front.counts().ejected(ejection.reason);
  front.set_reason(fmt::format("{} {}", ejection.name, ejection.reason));
  if (ejection.is_lost) {
    front.abandon(node);
  } else {
    front.remove(node);
  }
}

}  // namespace muster::serving
