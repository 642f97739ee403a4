// Event files: what runs wrote of themselves.
#include "packaging/python/src/arrays.h"

namespace muster::python {
namespace {

py::object value_of(const SummaryValue& value) {
  if (const auto scalar = scalar_of(value)) return py::float_(*scalar);
  if (const auto* image = std::get_if<ImageData>(&value.data)) return py::bytes(image->encoded);
  if (const auto* numbers = std::get_if<NumberTensor>(&value.data))
    return py::cast(numbers->values);
  if (const auto* text = std::get_if<StringTensor>(&value.data)) return py::cast(text->values);
  if (const auto* histogram = std::get_if<HistogramData>(&value.data)) {
    return py::make_tuple(histogram->limits, histogram->counts);
  }
  return py::none();
}

/// (wall_time, step, {tag: value}) of the next event with values.
py::tuple next_summary(EventReader& reader) {
  while (const auto event = reader.next()) {
    const auto* summary = std::get_if<Summary>(&event->what);
    if (summary == nullptr) continue;
    py::dict values;
    for (const SummaryValue& value : *summary) values[py::str(value.tag)] = value_of(value);
    return py::make_tuple(event->wall_time, event->step, values);
  }
  throw py::stop_iteration();
}

}  // namespace

void bind_events(py::module_& module) {
  py::class_<EventReader>(module, "EventReader",
                          "Summaries of an event file or a folder of them: wall time, step, and "
                          "values by tag.")
      .def(py::init([](const Path& path) { return EventReader(path); }), py::arg("path"))
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &next_summary);
}

}  // namespace muster::python
