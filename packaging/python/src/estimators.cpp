// Estimators: train, evaluate, predict, export.
#include "muster/nn/torch_script/torch_script.h"
#include "packaging/python/src/arrays.h"
#include "packaging/python/src/datasets.h"
#include "packaging/python/src/sessions.h"

namespace muster::python {
namespace {

/// A model of an Estimator, as a type of Python's.
struct ModelSource {
  ModelFactory make;
};

ModelSource script_model(const Path& file, const py::kwargs& given) {
  TorchScriptOptions options;
  Arguments("torch_script_model", given)
      .take("inputs", options.inputs)
      .take("output", options.output)
      .take("fixed_modes", options.fixed_modes)
      .take("draws_random_numbers", options.draws_random_numbers)
      .done();
  return {torch_script_model(file, options)};
}

std::optional<WarmStartSettings> warm_start_from(const std::optional<Path>& checkpoint) {
  if (!checkpoint) return std::nullopt;
  return WarmStartSettings{.ckpt_to_initialize_from = *checkpoint};
}

Estimator make_estimator(const py::kwargs& given) {
  ModelSource model;
  std::shared_ptr<Head> head;
  std::optional<OptimizerChoice> optimizer;
  RunConfig config;
  std::optional<Path> warm_start;
  EstimatorOptions options;
  std::optional<double> moving_average_decay;
  Arguments("Estimator", given)
      .take_required("model", model)
      .take("head", head)
      .take("optimizer", optimizer)
      .take("config", config)
      .take("clip_value", options.clip.value)
      .take("clip_norm", options.clip.norm)
      .take("clip_global_norm", options.clip.global_norm)
      .take("moving_average_decay", moving_average_decay)
      .take("warm_start_from", warm_start)
      .done();
  options.model = model.make;
  options.head = head;
  if (optimizer) options.optimizer = optimizer->resolve("adam", LearningRate(0.001));
  if (moving_average_decay) options.moving_average = {.decay = *moving_average_decay};
  options.warm_start = warm_start_from(warm_start);
  return {std::move(options), config};
}

TrainResult train(Estimator& estimator, const py::object& input_fn,
                  std::optional<std::int64_t> steps, std::optional<std::int64_t> max_steps,
                  const py::iterable& hooks) {
  const InputFn input = to_input_fn(input_fn);
  const TrainOptions options{.steps = steps, .max_steps = max_steps, .hooks = to_hooks(hooks)};
  const py::gil_scoped_release unlocked;
  return estimator.train(input, options);
}

EvaluationResult evaluate(Estimator& estimator, const py::object& input_fn,
                          std::optional<std::int64_t> steps, const std::string& name,
                          const Path& checkpoint_path, const py::iterable& hooks) {
  const InputFn input = to_input_fn(input_fn);
  EvaluateOptions options{
      .steps = steps, .hooks = to_hooks(hooks), .checkpoint_path = checkpoint_path, .name = name};
  options.hooks.push_back(python_signals_hook());
  const py::gil_scoped_release unlocked;
  return estimator.evaluate(input, options);
}

/// A pass of predictions in Python.
class PredictionPass {
 public:
  explicit PredictionPass(Predictions predictions) : predictions_(std::move(predictions)) {}

  py::dict next() {
    const auto prediction = next_prediction();
    if (!prediction) throw py::stop_iteration();
    return from_features(*prediction);
  }

 private:
  std::optional<Features> next_prediction() {
    const py::gil_scoped_release unlocked;
    return predictions_.next();
  }

  Predictions predictions_;
};

UnlockedPtr<PredictionPass> predict(Estimator& estimator, const py::object& input_fn,
                                    std::vector<std::string> predict_keys,
                                    const Path& checkpoint_path, bool yield_single_examples) {
  const InputFn input = to_input_fn(input_fn);
  const PredictOptions options{std::move(predict_keys), checkpoint_path, yield_single_examples};
  const py::gil_scoped_release unlocked;
  return UnlockedPtr<PredictionPass>(new PredictionPass(estimator.predict(input, options)));
}

Path export_model(const Estimator& estimator, const Path& base, const ServingInput& input,
                  const Path& checkpoint_path) {
  const py::gil_scoped_release unlocked;
  return export_saved_model(estimator, base, input, {.checkpoint_path = checkpoint_path});
}

py::dict checkpoint_variables(const Estimator& estimator) {
  py::dict variables;
  for (const std::string& name : estimator.get_variable_names()) {
    variables[py::str(name)] = to_array(estimator.get_variable_value(name));
  }
  return variables;
}

TrainSpec make_train_spec(const py::object& input_fn, std::optional<std::int64_t> max_steps,
                          const py::iterable& hooks) {
  return {.input_fn = to_input_fn(input_fn), .max_steps = max_steps, .hooks = to_hooks(hooks)};
}

EvalSpec make_eval_spec(const py::object& input_fn, const py::kwargs& given) {
  EvalSpec spec{.input_fn = to_input_fn(input_fn)};
  py::object hooks = py::list();
  std::int64_t start_delay_secs = spec.start_delay_secs.count();
  std::int64_t throttle_secs = spec.throttle_secs.count();
  Arguments("EvalSpec", given)
      .take("steps", spec.steps)
      .take("name", spec.name)
      .take("hooks", hooks)
      .take("exporters", spec.exporters)
      .take("start_delay_secs", start_delay_secs)
      .take("throttle_secs", throttle_secs)
      .take("every_steps", spec.every_steps)
      .done();
  spec.hooks = to_hooks(hooks);
  spec.start_delay_secs = std::chrono::seconds(start_delay_secs);
  spec.throttle_secs = std::chrono::seconds(throttle_secs);
  return spec;
}

void bind_specs_of_training(py::module_& module) {
  py::class_<TrainSpec>(module, "TrainSpec", "What train_and_evaluate() trains on.")
      .def(py::init(&make_train_spec), py::arg("input_fn"), py::arg("max_steps") = py::none(),
           py::arg("hooks") = py::tuple());
  py::class_<EvalSpec>(module, "EvalSpec", "What train_and_evaluate() evaluates on, and when.")
      .def(py::init(&make_eval_spec), py::arg("input_fn"));
  py::class_<TrainResult>(module, "TrainResult")
      .def_readonly("global_step", &TrainResult::global_step)
      .def_readonly("steps", &TrainResult::steps)
      .def_readonly("loss", &TrainResult::loss);
  py::class_<TrainAndEvaluateResult>(module, "TrainAndEvaluateResult")
      .def_readonly("metrics", &TrainAndEvaluateResult::metrics)
      .def_readonly("exports", &TrainAndEvaluateResult::exports);
}

void bind_estimator_class(py::module_& module) {
  py::class_<Estimator>(module, "Estimator", "Trains, evaluates and predicts with one model.")
      .def(py::init(&make_estimator))
      .def_property_readonly("model_dir", &Estimator::model_dir)
      .def_property_readonly("config", &Estimator::config)
      .def("train", &train, py::arg("input_fn"), py::arg("steps") = py::none(),
           py::arg("max_steps") = py::none(), py::arg("hooks") = py::tuple())
      .def("evaluate", &evaluate, py::arg("input_fn"), py::arg("steps") = py::none(),
           py::arg("name") = "", py::arg("checkpoint_path") = "", py::arg("hooks") = py::tuple())
      .def("predict", &predict, py::arg("input_fn"),
           py::arg("predict_keys") = std::vector<std::string>{}, py::arg("checkpoint_path") = "",
           py::arg("yield_single_examples") = true)
      .def("export_saved_model", &export_model, py::arg("base"), py::arg("serving_input"),
           py::arg("checkpoint_path") = "")
      .def("latest_checkpoint", &Estimator::latest_checkpoint)
      .def("variables", &checkpoint_variables, "The values of the latest checkpoint, by name.");
}

}  // namespace

void bind_estimators(py::module_& module) {
  py::class_<PredictionPass, UnlockedPtr<PredictionPass>>(module, "Predictions")
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &PredictionPass::next);
  py::class_<ModelSource>(module, "Model", "What an Estimator makes its models of.");
  module.def("torch_script_model", &script_model, py::arg("file"),
             "The model of a file of torch.jit.save, which is code: train those you trust.");
  bind_specs_of_training(module);
  bind_estimator_class(module);
  module.def("train_and_evaluate", &train_and_evaluate, py::arg("estimator"), py::arg("train_spec"),
             py::arg("eval_spec"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace muster::python
