#include "muster/kernels/parallel_for.h"

#include <ATen/Parallel.h>

namespace muster::kernels {

void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFunction work) {
  at::parallel_for(begin, end, grain, work);
}

}  // namespace muster::kernels
