#include "packaging/python/src/arrays.h"

#include <torch/types.h>

#include <algorithm>

namespace muster::python {
namespace {

/// A ragged column of Python's: rows of different lengths.
struct Ragged {
  py::object values;
  std::vector<std::int64_t> row_splits;
  py::object weights;
};

at::ScalarType scalar_type_of(const py::array& array) {
  const py::dtype type = array.dtype();
  const auto size = type.itemsize();
  switch (type.kind()) {
    case 'f':
      if (size == 4) return at::kFloat;
      if (size == 8) return at::kDouble;
      if (size == 2) return at::kHalf;
      break;
    case 'i':
      if (size == 8) return at::kLong;
      if (size == 4) return at::kInt;
      if (size == 2) return at::kShort;
      if (size == 1) return at::kChar;
      break;
    case 'u':
      if (size == 1) return at::kByte;
      break;
    case 'b':
      return at::kBool;
    default:
      break;
  }
  throw py::type_error("an array of " + type.attr("name").cast<std::string>() +
                       " cannot be a tensor: convert it by astype(), to float32 or int64");
}

py::dtype dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return py::dtype::of<float>();
    case at::kDouble:
      return py::dtype::of<double>();
    case at::kHalf:
      return py::dtype("e");
    case at::kLong:
      return py::dtype::of<std::int64_t>();
    case at::kInt:
      return py::dtype::of<std::int32_t>();
    case at::kShort:
      return py::dtype::of<std::int16_t>();
    case at::kChar:
      return py::dtype::of<std::int8_t>();
    case at::kByte:
      return py::dtype::of<std::uint8_t>();
    case at::kBool:
      return py::dtype::of<bool>();
    default:
      throw Unimplemented("numpy has no arrays of {}", at::toString(type));
  }
}

py::array array_of(const py::object& values) {
  auto array = py::array::ensure(values, py::array::c_style);
  if (!array) throw py::error_already_set();
  if (!array.dtype().attr("isnative").cast<bool>()) {
    array = array.attr("astype")(array.dtype().attr("newbyteorder")("="));
  }
  return array;
}

std::string bytes_of(const py::handle& text) {
  if (py::isinstance<py::str>(text) || py::isinstance<py::bytes>(text)) {
    return py::cast<std::string>(text);
  }
  throw py::type_error("an array of objects holds strings, and this is none: " +
                       py::repr(text).cast<std::string>());
}

FeatureValue to_ragged(const Ragged& ragged) {
  const py::array values = array_of(ragged.values);
  if (holds_strings(values)) {
    const auto owner = std::make_shared<const std::vector<std::string>>(to_strings(values));
    return StringColumn::ragged({owner->begin(), owner->end()}, ragged.row_splits, owner);
  }
  return RaggedColumn{to_tensor(values),
                      tensor_of(ragged.row_splits, {std::ssize(ragged.row_splits)}),
                      ragged.weights.is_none() ? at::Tensor() : to_tensor(ragged.weights)};
}

py::object from_strings(const StringColumn& column) {
  if (!column.is_ragged()) return to_array(column.values(), column.shape());
  std::vector<std::int64_t> splits{0};
  splits.reserve(static_cast<std::size_t>(column.rows()) + 1);
  for (std::int64_t row = 0; row < column.rows(); ++row) {
    splits.push_back(splits.back() + std::ssize(column.row(row)));
  }
  const auto strings = column.values();
  return py::cast(Ragged{to_array(strings, {std::ssize(strings)}), splits, py::none()});
}

py::object from_ragged(const RaggedColumn& column) {
  const at::Tensor splits = column.row_splits.contiguous();
  const auto* first = splits.data_ptr<std::int64_t>();
  return py::cast(Ragged{to_array(column.values),
                         {first, first + splits.numel()},
                         column.weights.defined() ? to_array(column.weights) : py::none()});
}

}  // namespace

bool holds_strings(const py::array& array) {
  return std::string_view("USO").find(array.dtype().kind()) != std::string_view::npos;
}

std::vector<std::string> to_strings(const py::array& array) {
  const py::list all = array.attr("ravel")().attr("tolist")();
  std::vector<std::string> strings;
  strings.reserve(all.size());
  for (const auto& text : all) strings.push_back(bytes_of(text));
  return strings;
}

at::Tensor to_tensor(const py::object& values) {
  py::array array = array_of(values);
  const at::ScalarType type = scalar_type_of(array);
  const std::vector<std::int64_t> shape(array.shape(), array.shape() + array.ndim());
  // libtorch reads it only; that the array may not be written does not matter.
  void* bytes = const_cast<void*>(array.data());
  return torch::from_blob(
      bytes, shape, [owner = share(std::move(array))](void*) {}, type);
}

py::array borrowed_array(const py::dtype& type, const std::vector<std::int64_t>& shape,
                         const void* bytes, std::shared_ptr<const void> owner) {
  using Owner = std::shared_ptr<const void>;
  const py::capsule base(new Owner(std::move(owner)),
                         [](void* held) { delete static_cast<Owner*>(held); });
  py::array array(type, shape, bytes, base);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

py::object to_array(const at::Tensor& tensor) {
  at::Tensor values = tensor.detach().cpu();
  if (values.scalar_type() == at::kBFloat16) values = values.to(at::kFloat);
  values = values.contiguous();
  const py::dtype type = dtype_of(values.scalar_type());
  const py::capsule base(new at::Tensor(values),
                         [](void* held) { delete static_cast<at::Tensor*>(held); });
  return py::array(type, values.sizes().vec(), values.data_ptr(), base);
}

py::object to_array(std::span<const std::string_view> strings,
                    const std::vector<std::int64_t>& shape) {
  py::list all;
  for (const std::string_view text : strings) {
    PyObject* decoded = PyUnicode_DecodeUTF8(text.data(), std::ssize(text), "surrogateescape");
    if (decoded == nullptr) throw py::error_already_set();
    all.append(py::reinterpret_steal<py::str>(decoded));
  }
  const auto numpy = py::module_::import("numpy");
  return numpy.attr("array")(all, py::arg("dtype") = "object").attr("reshape")(py::cast(shape));
}

FeatureValue to_feature(const py::object& value) {
  if (py::isinstance<Ragged>(value)) return to_ragged(value.cast<Ragged>());
  const py::array array = array_of(value);
  if (!holds_strings(array)) return to_tensor(array);
  return StringColumn(to_strings(array), {array.shape(), array.shape() + array.ndim()});
}

py::object from_feature(const FeatureValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) return to_array(*tensor);
  if (const auto* strings = std::get_if<StringColumn>(&value)) return from_strings(*strings);
  return from_ragged(std::get<RaggedColumn>(value));
}

Features to_features(const py::dict& columns) {
  Features features;
  for (const auto& [name, value] : columns) {
    features.add(py::cast<std::string>(name),
                 to_feature(py::reinterpret_borrow<py::object>(value)));
  }
  return features;
}

py::dict from_features(const Features& features) {
  py::dict columns;
  for (const auto& [name, value] : features) columns[py::str(name)] = from_feature(value);
  return columns;
}

Batch to_batch(const py::object& element) {
  if (py::isinstance<py::dict>(element)) return Batch{.features = to_features(element)};
  if (!py::isinstance<py::tuple>(element) || py::len(element) != 2) {
    throw py::type_error("a batch is a dict of features or a pair of features and labels, not " +
                         py::str(py::type::of(element)).cast<std::string>());
  }
  const py::object features = element[py::int_(0)];
  const py::object labels = element[py::int_(1)];
  if (py::isinstance<py::dict>(labels)) {
    return Batch{.features = to_features(features), .labels = to_features(labels)};
  }
  return make_batch(to_features(features), to_feature(labels));
}

py::tuple from_batch(const Batch& batch) {
  return py::make_tuple(from_features(batch.features), from_features(batch.labels));
}

void bind_features(py::module_& module) {
  py::class_<Ragged>(
      module, "Ragged",
      "Rows of different lengths: row i has values[row_splits[i]:row_splits[i + 1]].")
      .def(py::init<py::object, std::vector<std::int64_t>, py::object>(), py::arg("values"),
           py::arg("row_splits"), py::arg("weights") = py::none())
      .def_readonly("values", &Ragged::values)
      .def_readonly("row_splits", &Ragged::row_splits)
      .def_readonly("weights", &Ragged::weights);
}

}  // namespace muster::python
