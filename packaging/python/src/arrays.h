#pragma once

// Between numpy's arrays and muster's tensors, features and batches. All need the interpreter's
// lock.
#include <pybind11/numpy.h>

#include "packaging/python/src/bindings.h"

namespace muster::python {

/// A tensor over the array's memory, which lives as long as the tensor. Anything that numpy makes
/// an array of is taken. Throws TypeError for types that libtorch has not.
at::Tensor to_tensor(const py::object& values);
/// An array over the tensor's memory, on the CPU. numpy has no bfloat16: that becomes float32.
py::object to_array(const at::Tensor& tensor);
/// An array over memory that `owner` keeps, which is not to be written.
py::array borrowed_array(const py::dtype& type, const std::vector<std::int64_t>& shape,
                         const void* bytes, std::shared_ptr<const void> owner);
/// Strings, in an array of objects.
py::object to_array(std::span<const std::string_view> strings,
                    const std::vector<std::int64_t>& shape);
/// The strings of an array, as bytes in UTF-8.
std::vector<std::string> to_strings(const py::array& array);
/// Whether an array is one of strings.
bool holds_strings(const py::array& array);

/// An array, or a Ragged.
FeatureValue to_feature(const py::object& value);
py::object from_feature(const FeatureValue& value);
/// From and to a dict by name.
Features to_features(const py::dict& columns);
py::dict from_features(const Features& features);
/// From (features, labels), or features alone; labels are a dict or one array.
Batch to_batch(const py::object& element);
py::tuple from_batch(const Batch& batch);

}  // namespace muster::python
