#pragma once

// Shared by the sources of the Python module: one source binds one topic.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/suggestion.h"
#include "muster/muster.h"

namespace muster::python {

namespace py = pybind11;

void bind_errors(py::module_& module);
void bind_features(py::module_& module);
void bind_columns(py::module_& module);
void bind_heads(py::module_& module);
void bind_optimizers(py::module_& module);
void bind_run_config(py::module_& module);
void bind_datasets(py::module_& module);
void bind_sessions(py::module_& module);
void bind_exports(py::module_& module);
void bind_estimators(py::module_& module);
void bind_canned(py::module_& module);
void bind_checkpoints(py::module_& module);
void bind_records(py::module_& module);
void bind_events(py::module_& module);

/// A file or several, as Python's callers give them.
using Paths = std::variant<Path, std::vector<Path>>;
inline std::vector<Path> list_of(const Paths& paths) {
  if (const auto* one = std::get_if<Path>(&paths)) return {*one};
  return std::get<std::vector<Path>>(paths);
}

/// A Python object that any thread may copy and drop.
using SharedObject = std::shared_ptr<py::object>;
inline SharedObject share(py::object object) {
  return {new py::object(std::move(object)), [](py::object* held) {
            const py::gil_scoped_acquire locked;
            delete held;
          }};
}

/// Deletes without the interpreter's lock: destructors wait for threads that may want it.
struct DeleteUnlocked {
  template <typename T>
  void operator()(T* object) const {
    const py::gil_scoped_release unlocked;
    delete object;
  }
};
template <typename T>
using UnlockedPtr = std::unique_ptr<T, DeleteUnlocked>;

/// The named arguments of a call, each taken by the field of options that it sets.
class Arguments {
 public:
  Arguments(std::string function, const py::kwargs& given)
      : function_(std::move(function)), left_(given.attr("copy")()) {}

  /// Sets the field if the argument was given. Throws TypeError for a value of another type.
  template <typename T>
  Arguments& take(const char* name, T& field) {
    names_.emplace_back(name);
    if (left_.contains(name)) field = cast<T>(name, left_.attr("pop")(name));
    return *this;
  }
  template <typename T>
  Arguments& take_required(const char* name, T& field) {
    if (!left_.contains(name)) {
      throw py::type_error(fmt::format("{}() needs the argument {}", function_, name));
    }
    return take(name, field);
  }
  /// Throws TypeError for an argument that no field took, with the nearest name.
  void done() const {
    for (const auto& item : left_) {
      const auto name = py::cast<std::string>(item.first);
      throw py::type_error(fmt::format("{}() has no argument {}; it has {}", function_, name,
                                       fmt::join(names_, ", ")));
    }
  }

 private:
  template <typename T>
  T cast(const char* name, const py::object& value) const {
    try {
      return value.cast<T>();
    } catch (const py::cast_error&) {
      throw py::type_error(fmt::format("{}(): {} cannot be {}", function_, name,
                                       py::repr(value).cast<std::string>()));
    }
  }

  std::string function_;
  py::dict left_;
  std::vector<std::string> names_;
};

}  // namespace muster::python
