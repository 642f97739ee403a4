// Heads: loss, predictions and metrics of one kind of task.
#include "packaging/python/src/bindings.h"
#include "packaging/python/src/choices.h"

namespace muster::python {
namespace {

HeadOptions head_options(const char* function, const py::kwargs& given) {
  HeadOptions options;
  std::string reduction = "mean";
  Arguments(function, given)
      .take("name", options.name)
      .take("weight_column", options.weight_column)
      .take("loss_reduction", reduction)
      .take("label_vocabulary", options.label_vocabulary)
      .take("thresholds", options.thresholds)
      .take("classes_for_class_based_metrics", options.classes_for_class_based_metrics)
      .take("label_smoothing", options.label_smoothing)
      .take("focal_gamma", options.focal_gamma)
      .take("class_weights", options.class_weights)
      .done();
  options.loss_reduction = reduction_named(reduction);
  return options;
}

// Python has no const: heads are immutable, so theirs may be lent as if they were not.
using Held = std::shared_ptr<Head>;
Held hold(const HeadPtr& head) { return std::const_pointer_cast<Head>(head); }

}  // namespace

void bind_heads(py::module_& module) {
  py::class_<Head, Held>(module, "Head", "Loss, predictions and metrics of one kind of task.");
  module.def("binary_class_head", [](const py::kwargs& given) {
    return hold(binary_class_head(head_options("binary_class_head", given)));
  });
  module.def(
      "multi_class_head",
      [](std::int64_t n_classes, const py::kwargs& given) {
        return hold(multi_class_head(n_classes, head_options("multi_class_head", given)));
      },
      py::arg("n_classes"));
  module.def(
      "multi_label_head",
      [](std::int64_t n_classes, const py::kwargs& given) {
        return hold(multi_label_head(n_classes, head_options("multi_label_head", given)));
      },
      py::arg("n_classes"));
  module.def(
      "regression_head",
      [](std::int64_t label_dimension, const py::kwargs& given) {
        return hold(regression_head(label_dimension, head_options("regression_head", given)));
      },
      py::arg("label_dimension") = 1);
  module.def(
      "poisson_head",
      [](std::int64_t label_dimension, const py::kwargs& given) {
        return hold(poisson_head(label_dimension, head_options("poisson_head", given)));
      },
      py::arg("label_dimension") = 1);
  module.def("logistic_regression_head", [](const py::kwargs& given) {
    return hold(logistic_regression_head(head_options("logistic_regression_head", given)));
  });
  module.def(
      "multi_head",
      [](const std::vector<Held>& heads, std::vector<double> weights) {
        return hold(multi_head({heads.begin(), heads.end()}, std::move(weights)));
      },
      py::arg("heads"), py::arg("head_weights") = std::vector<double>{});
}

}  // namespace muster::python
