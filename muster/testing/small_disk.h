#pragma once

#include <sys/resource.h>

namespace muster::testing {

/// No file of this process grows beyond `bytes` while it lives, as on a disk that is full.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace muster::testing
