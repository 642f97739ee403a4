// Optimizers and learning rates.
#include "packaging/python/src/bindings.h"

namespace muster::python {
namespace {

/// The arguments of an optimizer: its learning rate, and those that its options have beside.
template <typename Options>
void take_options(Arguments& arguments, Options& options) {
  if constexpr (requires { options.weight_decay; }) {
    arguments.take("weight_decay", options.weight_decay);
  }
  if constexpr (requires { options.momentum; }) arguments.take("momentum", options.momentum);
  if constexpr (requires { options.nesterov; }) arguments.take("nesterov", options.nesterov);
  if constexpr (requires { options.initial_accumulator; }) {
    arguments.take("initial_accumulator", options.initial_accumulator);
  }
  if constexpr (requires { options.l1; }) {
    arguments.take("l1", options.l1).take("l2", options.l2);
  }
  if constexpr (requires { options.beta1; }) {
    arguments.take("beta1", options.beta1).take("beta2", options.beta2);
  }
  if constexpr (requires { options.epsilon; }) arguments.take("epsilon", options.epsilon);
  if constexpr (requires { options.decay; }) {
    arguments.take("decay", options.decay).take("centered", options.centered);
  }
  if constexpr (requires { options.l2_shrinkage; }) {
    arguments.take("learning_rate_power", options.learning_rate_power)
        .take("l2_shrinkage", options.l2_shrinkage);
  }
}

template <typename Options>
void bind_optimizer(py::module_& module, const char* name) {
  module.def(name, [name](const py::kwargs& given) {
    Arguments arguments(name, given);
    LearningRate rate = 0.0;
    if constexpr (std::is_default_constructible_v<Options>) {
      rate = Options().learning_rate;
      arguments.take("learning_rate", rate);
    } else {
      arguments.take_required("learning_rate", rate);
    }
    Options options{.learning_rate = rate};
    take_options(arguments, options);
    arguments.done();
    return Optimizer(options);
  });
}

LearningRate exponential_rate(double initial, std::int64_t decay_steps, double decay_rate,
                              bool staircase) {
  return exponential({initial, decay_steps, decay_rate, staircase});
}

LearningRate polynomial_rate(double initial, std::int64_t decay_steps, double end, double power,
                             bool cycle) {
  return polynomial({initial, decay_steps, end, power, cycle});
}

LearningRate cosine_rate(double initial, std::int64_t decay_steps, double alpha) {
  return cosine({initial, decay_steps, alpha});
}

LearningRate warmed_up(const LearningRate& rate, std::int64_t steps, double start_factor) {
  return warm_up(rate, {steps, start_factor});
}

LearningRate in_one_cycle(double maximum, std::int64_t total_steps) {
  return one_cycle({.maximum = maximum, .total_steps = total_steps});
}

void bind_learning_rates(py::module_& module) {
  py::class_<LearningRate>(module, "LearningRate", "A learning rate as a function of the step.")
      .def(py::init<double>(), py::arg("value"))
      .def("at", &LearningRate::at, py::arg("step"))
      .def("__repr__", &LearningRate::description);
  py::implicitly_convertible<py::float_, LearningRate>();
  py::implicitly_convertible<py::int_, LearningRate>();
  module.def("piecewise", &piecewise, py::arg("boundaries"), py::arg("values"));
  module.def("exponential", &exponential_rate, py::arg("initial"), py::arg("decay_steps"),
             py::arg("decay_rate"), py::arg("staircase") = false);
  module.def("polynomial", &polynomial_rate, py::arg("initial"), py::arg("decay_steps"),
             py::arg("end") = 0.0001, py::arg("power") = 1.0, py::arg("cycle") = false);
  module.def("cosine", &cosine_rate, py::arg("initial"), py::arg("decay_steps"),
             py::arg("alpha") = 0.0);
  module.def("warm_up", &warmed_up, py::arg("rate"), py::arg("steps"),
             py::arg("start_factor") = 0.0);
  module.def("one_cycle", &in_one_cycle, py::arg("maximum"), py::arg("total_steps"));
}

}  // namespace

void bind_optimizers(py::module_& module) {
  bind_learning_rates(module);
  py::class_<Optimizer>(module, "Optimizer", "How gradients become updates.")
      .def("__repr__", &Optimizer::description);
  bind_optimizer<SgdOptions>(module, "sgd");
  bind_optimizer<MomentumOptions>(module, "momentum");
  bind_optimizer<AdagradOptions>(module, "adagrad");
  bind_optimizer<ProximalAdagradOptions>(module, "proximal_adagrad");
  bind_optimizer<AdamOptions>(module, "adam");
  bind_optimizer<AdamWOptions>(module, "adamw");
  bind_optimizer<RmsPropOptions>(module, "rmsprop");
  bind_optimizer<FtrlOptions>(module, "ftrl");
  bind_optimizer<LionOptions>(module, "lion");
  py::class_<OptimizerChoice>(module, "OptimizerChoice")
      .def(py::init<std::string>())
      .def(py::init<Optimizer>());
  py::implicitly_convertible<py::str, OptimizerChoice>();
  py::implicitly_convertible<Optimizer, OptimizerChoice>();
}

}  // namespace muster::python
