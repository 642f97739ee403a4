#include "muster/testing/small_disk.h"

#include <csignal>

namespace muster::testing {

// Without a handler the signal would end the process; so the write fails instead.
SmallDisk::SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
  ::getrlimit(RLIMIT_FSIZE, &before_);
  const rlimit limit{bytes, before_.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

SmallDisk::~SmallDisk() {
  ::setrlimit(RLIMIT_FSIZE, &before_);
  std::signal(SIGXFSZ, handler_);
}

}  // namespace muster::testing
