// Errors as Python exceptions: muster.Error, and one class below it for each code.
#include "muster/base/signals.h"
#include "packaging/python/src/bindings.h"

#include <c10/util/Exception.h>
#include <signal.h>

#include <array>

namespace muster::python {
namespace {

constexpr std::array kNames{
    "Ok",       "Cancelled",      "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

// They live as long as the interpreter.
std::array<PyObject*, kNames.size()> g_classes{};

void set_error(ErrorCode code, const char* message) {
  PyErr_SetString(g_classes.at(static_cast<std::size_t>(code)), message);
}

// The checkpoint is saved: what remains is Python's own way of stopping.
void raise_for_signal(const Interrupted& interrupted) {
  StopSignals::reset();
  if (interrupted.signal() == SIGINT) {
    PyErr_SetString(PyExc_KeyboardInterrupt, interrupted.what());
  } else {
    const py::int_ status(128 + interrupted.signal());
    PyErr_SetObject(PyExc_SystemExit, status.ptr());
  }
}

void translate(std::exception_ptr exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const Interrupted& interrupted) {
    raise_for_signal(interrupted);
  } catch (const Error& error) {
    set_error(error.code(), error.what());
  } catch (const c10::Error&) {
    const Description described = describe(exception);
    set_error(described.code, described.message.c_str());
  }
}

PyObject* make_class(const py::module_& module, const char* name, const py::handle& base) {
  const std::string full = std::string("muster.") + name;
  PyObject* made = PyErr_NewException(full.c_str(), base.ptr(), nullptr);
  if (made == nullptr) throw py::error_already_set();
  py::setattr(module, name, made);
  return made;
}

}  // namespace

void bind_errors(py::module_& module) {
  const py::handle error = make_class(module, "Error", PyExc_Exception);
  error.attr("__doc__") = "Every failure that muster reports; code says of which kind.";
  for (std::size_t code = 1; code < kNames.size(); ++code) {
    g_classes[code] = make_class(module, kNames[code], error);
    const auto name = name_of(static_cast<ErrorCode>(code));
    py::setattr(g_classes[code], "code", py::str(std::string(name)));
  }
  g_classes[0] = error.ptr();
  py::register_local_exception_translator(translate);
}

}  // namespace muster::python
