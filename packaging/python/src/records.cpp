// TFRecord files, record by record.
#include "packaging/python/src/arrays.h"

namespace muster::python {
namespace {

py::bytes next_record(RecordReader& reader) {
  const auto record = reader.next();
  if (!record) throw py::stop_iteration();
  return {record->data(), record->size()};
}

void append(RecordWriter& writer, const py::bytes& record) {
  writer.append(std::string_view(record));
}

template <typename T>
void add_values(ExampleBuilder& example, const std::string& key, const std::vector<T>& values) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    example.add_ints(key, values);
  } else if constexpr (std::is_same_v<T, float>) {
    example.add_floats(key, values);
  } else {
    example.add_bytes(key, std::vector<std::string_view>(values.begin(), values.end()));
  }
}

py::bytes encode_example(const py::dict& features) {
  ExampleBuilder example;
  for (const auto& [key, given] : features) {
    const py::array values = py::array::ensure(given);
    if (!values) throw py::error_already_set();
    const auto name = py::cast<std::string>(key);
    if (holds_strings(values)) {
      add_values(example, name, to_strings(values));
    } else if (values.dtype().kind() == 'f') {
      add_values(example, name, values.attr("ravel")().cast<std::vector<float>>());
    } else {
      add_values(example, name, values.attr("ravel")().cast<std::vector<std::int64_t>>());
    }
  }
  return example.serialize();
}

/// Publishes the file where the block of `with` ended well; else it leaves no trace.
void leave(RecordWriter& writer, const py::object& failure, const py::object&, const py::object&) {
  if (failure.is_none()) writer.close();
}

}  // namespace

void bind_records(py::module_& module) {
  py::class_<RecordReader>(module, "RecordReader", "The records of one TFRecord file, as bytes.")
      .def(py::init([](const Path& path) { return RecordReader(path); }), py::arg("path"))
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &next_record);
  py::class_<RecordWriter>(module, "RecordWriter",
                           "Writes a TFRecord file, which appears whole at the end of `with`.")
      .def(py::init([](const Path& path, const std::string& compression, bool index) {
             return RecordWriter(
                 path, {.compression = parse_compression(compression), .write_index = index});
           }),
           py::arg("path"), py::arg("compression") = "", py::arg("write_index") = false)
      .def("append", &append, py::arg("record"))
      .def("close", &RecordWriter::close)
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", &leave);
  module.def(
      "encode_example", &encode_example, py::arg("features"),
      "A tf.Example of numbers and strings, single or in arrays, for RecordWriter.append().");
}

}  // namespace muster::python
