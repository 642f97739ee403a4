#include "muster/data/dataset/ignore_errors.h"

#include "muster/base/log.h"

namespace muster {

void log_dropped_element(const Error& failure, std::uint64_t dropped, std::uint64_t budget) {
  log::warning("dropped an element dropped={} budget={} error=\"{}\"", dropped, budget,
               failure.what());
}

}  // namespace muster
