#include "muster/nn/kernels/parallel_for.h"

#include <ATen/Parallel.h>
#include <omp.h>

namespace muster::kernels {

void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFunction work) {
  at::parallel_for(begin, end, grain, work);
}

void set_threads_of_this(int threads) {
  // Asking comes first: the first time, libtorch initializes the number of this thread.
  if (at::get_num_threads() != threads) ::omp_set_num_threads(threads);
}

}  // namespace muster::kernels
