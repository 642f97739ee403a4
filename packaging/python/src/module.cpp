// muster._muster, the C++ side of the Python package.
#include "muster/base/blas_core.h"
#include "muster/platform/stores/register_stores.h"
#include "packaging/python/src/bindings.h"

namespace muster::python {
namespace {

// OpenBLAS chooses when it is loaded: for this process it is too late.
void warn_of_blas_core() {
  const std::string core = better_blas_core();
  if (core.empty()) return;
  log::warning(
      "OpenBLAS does not know this processor and was loaded before muster: it computes slowly, and "
      "weights differ from those of C++ programs; import muster before numpy and torch, or set "
      "OPENBLAS_CORETYPE={} before Python starts",
      core);
}

}  // namespace

PYBIND11_MODULE(_muster, module) {
  bind_errors(module);
  bind_features(module);
  bind_columns(module);
  bind_heads(module);
  bind_optimizers(module);
  bind_run_config(module);
  bind_datasets(module);
  bind_sessions(module);
  bind_exports(module);
  bind_estimators(module);
  bind_canned(module);
  bind_checkpoints(module);
  bind_records(module);
  bind_events(module);
  module.attr("__version__") = MUSTER_VERSION;
  module.def(
      "set_log_level", [](const std::string& level) { log::set_level(log::parse_level(level)); },
      py::arg("level"), "Lines below it are dropped: debug, info, warning, error, off.");
  module.def("set_log_file", &log::set_file, py::arg("path"),
             "Appends log lines to this file; an empty path goes back to standard error.");
  register_stores();
  warn_of_blas_core();
}

}  // namespace muster::python
