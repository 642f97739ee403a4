#pragma once

// Hooks written in Python, and the run as they see it.
#include "packaging/python/src/bindings.h"

namespace muster::python {

/// Hooks of C++, and objects of Python with methods of their names: after_run(session) and others.
Hooks to_hooks(const py::iterable& hooks);

/// A hook that lets Python's own signal handlers run after each step, for what does not catch
/// signals itself.
HookPtr python_signals_hook();

}  // namespace muster::python
