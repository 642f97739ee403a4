#include "packaging/python/src/sessions.h"

#include "packaging/python/src/arrays.h"

namespace muster::python {
namespace {

/// A run as hooks of Python see it: only in their calls, wherever they keep it.
class SessionView {
 public:
  Session& get() const {
    if (session_ == nullptr) {
      throw FailedPrecondition("a session is there during the calls of a hook alone");
    }
    return *session_;
  }
  void set(Session* session) { session_ = session; }

 private:
  Session* session_ = nullptr;
};

/// Lends a session to Python while it lives.
class Lent {
 public:
  Lent(SessionView& view, Session& session) : view_(view) { view_.set(&session); }
  ~Lent() { view_.set(nullptr); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

 private:
  SessionView& view_;
};

/// Calls the methods that an object of Python has. Steps between which it has nothing to do do not
/// ask for the interpreter's lock.
class PythonHook final : public Hook {
 public:
  explicit PythonHook(const py::object& hook)
      : begin_(method(hook, "begin")),
        after_create_session_(method(hook, "after_create_session")),
        before_run_(method(hook, "before_run")),
        after_run_(method(hook, "after_run")),
        end_(method(hook, "end")),
        before_evaluation_(method(hook, "before_evaluation")),
        after_evaluation_(method(hook, "after_evaluation")),
        view_(std::make_shared<SessionView>()) {}

  void begin(Session& session) override { call(begin_, session); }
  void after_create_session(Session& session) override { call(after_create_session_, session); }
  void before_run(Session& session) override { call(before_run_, session); }
  void after_run(Session& session) override { call(after_run_, session); }
  void end(Session& session) override { call(end_, session); }
  void before_evaluation(Session& session) override { call(before_evaluation_, session); }
  void after_evaluation(Session& session, const EvaluationResult& metrics) override {
    call(after_evaluation_, session, metrics);
  }

 private:
  static SharedObject method(const py::object& hook, const char* name) {
    return py::hasattr(hook, name) ? share(hook.attr(name)) : nullptr;
  }

  template <typename... More>
  void call(const SharedObject& method, Session& session, const More&... more) const {
    if (!method) return;
    const py::gil_scoped_acquire locked;
    const Lent lent(*view_, session);
    (*method)(view_, more...);
  }

  SharedObject begin_;
  SharedObject after_create_session_;
  SharedObject before_run_;
  SharedObject after_run_;
  SharedObject end_;
  SharedObject before_evaluation_;
  SharedObject after_evaluation_;
  std::shared_ptr<SessionView> view_;
};

class PythonSignals final : public Hook {
 public:
  void after_run(Session&) override {
    const py::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
};

py::dict session_variables(const SessionView& view) {
  py::dict variables;
  for (const NamedTensor& variable : view.get().variables()) {
    variables[py::str(variable.name)] = to_array(variable.tensor);
  }
  return variables;
}

void write_scalar(const SessionView& view, const std::string& tag, float value) {
  Session& session = view.get();
  session.events().add_scalar(tag, value, session.global_step());
}

void bind_views(py::module_& module) {
  py::class_<SessionView, std::shared_ptr<SessionView>>(module, "Session",
                                                        "A run, as its hooks see it.")
      .def_property_readonly(
          "mode", [](const SessionView& view) { return std::string(name_of(view.get().mode())); })
      .def_property_readonly("global_step",
                             [](const SessionView& view) { return view.get().global_step(); })
      .def_property_readonly("output_dir",
                             [](const SessionView& view) { return view.get().output_dir(); })
      .def_property_readonly("loss", [](const SessionView& view) { return view.get().loss(); })
      .def_property_readonly("step_examples",
                             [](const SessionView& view) { return view.get().step_examples(); })
      .def_property_readonly("learning_rates",
                             [](const SessionView& view) { return view.get().learning_rates(); })
      .def_property_readonly("stop_requested",
                             [](const SessionView& view) { return view.get().stop_requested(); })
      .def("variables", &session_variables,
           "The live values, as arrays that the next step changes.")
      .def("write_scalar", &write_scalar, py::arg("tag"), py::arg("value"))
      .def("save_checkpoint", [](const SessionView& view) { view.get().save_checkpoint({}); })
      .def(
          "request_stop",
          [](const SessionView& view, const std::string& reason) {
            view.get().request_stop(reason);
          },
          py::arg("reason"));
}

}  // namespace

Hooks to_hooks(const py::iterable& hooks) {
  Hooks made;
  for (const auto& hook : hooks) {
    if (py::isinstance<Hook>(hook)) {
      made.push_back(hook.cast<HookPtr>());
    } else {
      made.push_back(std::make_shared<PythonHook>(py::reinterpret_borrow<py::object>(hook)));
    }
  }
  return made;
}

HookPtr python_signals_hook() { return std::make_shared<PythonSignals>(); }

void bind_sessions(py::module_& module) {
  bind_views(module);
  py::class_<Hook, HookPtr>(module, "NativeHook", "A hook of C++.");
  module.def(
      "stop_at_step",
      [](std::int64_t last_step) -> HookPtr {
        return std::make_shared<StopAtStepHook>(StopAtStepOptions{.last_step = last_step});
      },
      py::arg("last_step"));
  const auto threshold = [&module](const char* name, auto* function) {
    module.def(
        name,
        [function](const std::string& metric, double value, std::int64_t min_steps) {
          return function(metric, value, {.min_steps = min_steps});
        },
        py::arg("metric"), py::arg("threshold"), py::arg("min_steps") = 0);
  };
  threshold("stop_if_higher", &stop_if_higher);
  threshold("stop_if_lower", &stop_if_lower);
  const auto patience = [&module](const char* name, auto* function) {
    module.def(
        name,
        [function](const std::string& metric, std::int64_t steps, std::int64_t min_steps) {
          return function(metric, steps, {.min_steps = min_steps});
        },
        py::arg("metric"), py::arg("max_steps"), py::arg("min_steps") = 0);
  };
  patience("stop_if_no_increase", &stop_if_no_increase);
  patience("stop_if_no_decrease", &stop_if_no_decrease);
}

}  // namespace muster::python
