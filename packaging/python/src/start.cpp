// muster._start: questions that muster asks before libtorch and OpenBLAS are loaded. It links
// neither.
#include <pybind11/pybind11.h>

#include "muster/base/blas_core.h"
#include "muster/base/spinning.h"

PYBIND11_MODULE(_start, module) {
  module.def(
      "better_blas_core", [] { return muster::better_blas_core(); },
      "What OPENBLAS_CORETYPE should be for the OpenBLAS that this process has loaded; or "
      "nothing.");
  module.attr("SPIN_COUNT_VARIABLE") = muster::kSpinCountVariable;
  module.attr("SPIN_COUNT") = muster::kSpinCount;
}
