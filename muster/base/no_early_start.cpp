// With sanitizers: what runs before they are ready would end the program.
#include "muster/base/spinning.h"

namespace muster::internal {

void limit_spinning() {}

}  // namespace muster::internal
