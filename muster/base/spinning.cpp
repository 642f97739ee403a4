#include "muster/base/spinning.h"

#include <cstdlib>

namespace muster {

void limit_spinning_of_children() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv(kSpinCountVariable, kSpinCount, /*overwrite=*/0);
}

}  // namespace muster
