// Exports: how servers feed them, when they are made, and answers of theirs in this process.
#include "muster/saved_model/api.h"
#include "packaging/python/src/arrays.h"
#include "packaging/python/src/datasets.h"

namespace muster::python {
namespace {

using executor::ExecutableModel;
using executor::Value;
using executor::Values;

ServingInput json_input(const py::object& features) {
  if (py::isinstance<py::dict>(features)) return json_serving_input(to_specs(features));
  return json_serving_input(features.cast<FeatureColumnList>());
}

ServingInput example_input(const py::object& features, const std::string& key) {
  if (py::isinstance<py::dict>(features)) return example_serving_input(to_specs(features), key);
  return example_serving_input(features.cast<FeatureColumnList>(), key);
}

void bind_serving_inputs(py::module_& module) {
  py::class_<ServingInput>(module, "ServingInput", "How a server hands examples to an export.");
  module.def("json_serving_input", &json_input, py::arg("features"));
  module.def("example_serving_input", &example_input, py::arg("features"),
             py::arg("key") = "examples");
  module.def(
      "raw_serving_input",
      [](const py::dict& example) { return raw_serving_input(to_features(example)); },
      py::arg("example"), "Tensors like those of this example of two rows or more.");
}

void bind_exporters(py::module_& module) {
  py::class_<Exporter, std::shared_ptr<Exporter>>(module, "Exporter",
                                                  "Publishes a model after an evaluation.");
  module.def(
      "final_exporter",
      [](const std::string& name, const ServingInput& input) -> std::shared_ptr<Exporter> {
        return final_exporter(name, input);
      },
      py::arg("name"), py::arg("serving_input"));
  module.def(
      "latest_exporter",
      [](const std::string& name, const ServingInput& input,
         std::optional<std::int64_t> exports_to_keep) -> std::shared_ptr<Exporter> {
        return latest_exporter(name, input, {.exports_to_keep = exports_to_keep});
      },
      py::arg("name"), py::arg("serving_input"), py::arg("exports_to_keep") = 5);
  module.def(
      "best_exporter",
      [](const std::string& name, const ServingInput& input,
         const std::optional<std::string>& larger_metric,
         std::optional<std::int64_t> exports_to_keep) -> std::shared_ptr<Exporter> {
        return best_exporter(
            name, input,
            {.compare_fn = larger_metric ? larger_is_better(*larger_metric) : CompareFn(),
             .exports_to_keep = exports_to_keep});
      },
      py::arg("name"), py::arg("serving_input"), py::arg("larger_metric") = py::none(),
      py::arg("exports_to_keep") = 5,
      "Exports what has the smallest loss yet, or the largest of another metric.");
}

/// The array that an input of the model takes: numbers become its type, where none is lost.
Value to_value(const py::object& given, const graph::TensorInfo* input) {
  py::array array = py::array::ensure(given);
  if (!array) throw py::error_already_set();
  if (holds_strings(array)) {
    return executor::StringTensor(to_strings(array), {array.shape(), array.shape() + array.ndim()});
  }
  if (input != nullptr && is_stored(input->dtype) && input->dtype != DataType::kString) {
    array = array.attr("astype")(std::string(numpy_name(input->dtype)),
                                 py::arg("casting") = "same_kind", py::arg("copy") = false);
  }
  return to_tensor(array);
}

/// The input of a signature; null where there is none, which run() reports.
const graph::TensorInfo* find_input(const ExecutableModel& model, const std::string& signature,
                                    const std::string& name) {
  const auto found = model.signatures().find(signature);
  if (found == model.signatures().end()) return nullptr;
  const auto input = found->second.inputs.find(name);
  return input == found->second.inputs.end() ? nullptr : &input->second;
}

py::object from_value(const Value& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) return to_array(*tensor);
  const auto& strings = std::get<executor::StringTensor>(value);
  return to_array(std::vector<std::string_view>(strings.values().begin(), strings.values().end()),
                  strings.shape());
}

py::dict predict_by_export(const ExecutableModel& model, const py::dict& inputs,
                           const std::string& signature) {
  Values values;
  for (const auto& [key, value] : inputs) {
    const auto name = py::cast<std::string>(key);
    const py::object given = py::reinterpret_borrow<py::object>(value);
    values.emplace(name, to_value(given, find_input(model, signature, name)));
  }
  const Values answers = [&] {
    const py::gil_scoped_release unlocked;
    return model.run(signature, values);
  }();
  py::dict outputs;
  for (const auto& [name, value] : answers) outputs[py::str(name)] = from_value(value);
  return outputs;
}

ExecutableModel load_export(const Path& folder) {
  const py::gil_scoped_release unlocked;
  const Path latest = graph::latest_export(folder);
  return ExecutableModel::load(latest.empty() ? folder : latest);
}

py::dict signatures_of(const ExecutableModel& model) {
  py::dict signatures;
  for (const auto& [name, signature] : model.signatures()) {
    py::list inputs;
    py::list outputs;
    for (const auto& input : signature.inputs) inputs.append(input.first);
    for (const auto& output : signature.outputs) outputs.append(output.first);
    signatures[py::str(name)] = py::make_tuple(inputs, outputs);
  }
  return signatures;
}

}  // namespace

void bind_exports(py::module_& module) {
  bind_serving_inputs(module);
  bind_exporters(module);
  py::class_<ExecutableModel>(module, "SavedModel", "An export that answers in this process.")
      .def(py::init(&load_export), py::arg("folder"),
           "A SavedModel, or a folder of numbered exports, whose newest is taken.")
      .def_property_readonly("signatures", &signatures_of, "Inputs and outputs by signature.")
      .def("predict", &predict_by_export, py::arg("inputs"),
           py::arg("signature") = "serving_default");
}

}  // namespace muster::python
