// Checkpoints as arrays over the mapped files.
#include "packaging/python/src/arrays.h"

namespace muster::python {
namespace {

// The upper halves of float32.
py::object widened(const py::array& halves, const std::vector<std::int64_t>& shape) {
  const py::object words = halves.attr("astype")("u4") * py::int_(65536);
  return words.attr("astype")("u4").attr("view")("f4").attr("reshape")(py::cast(shape));
}

py::object array_of_tensor(const BundleReader& bundle, const std::string& name) {
  const TensorSpec spec = bundle.spec(name);
  if (spec.type == DataType::kString) {
    const std::vector<std::string> strings = bundle.read_strings(name);
    return to_array(std::vector<std::string_view>(strings.begin(), strings.end()), spec.shape);
  }
  const bool is_bfloat16 = spec.type == DataType::kBfloat16;
  const std::string type(is_bfloat16 ? "uint16" : numpy_name(spec.type));
  const TensorData data = bundle.read(name);
  const py::array array =
      borrowed_array(py::dtype(type), spec.shape, data.bytes.data(), data.owner);
  if (is_bfloat16) return widened(array, spec.shape);
  return array;
}

py::dict load_tensors(const Path& path) {
  const BundleReader bundle(resolve_checkpoint(path));
  py::dict tensors;
  for (const std::string& name : bundle.names()) {
    tensors[py::str(name)] = array_of_tensor(bundle, name);
  }
  return tensors;
}

}  // namespace

void bind_checkpoints(py::module_& module) {
  module.def("load_checkpoint", &load_tensors, py::arg("path"),
             "The tensors of a checkpoint by name: of a prefix, a model folder or a SavedModel. "
             "Arrays are over the mapped files, and not to be written.");
  module.def("latest_checkpoint", &latest_checkpoint, py::arg("model_dir"));
  module.def("list_checkpoints", &list_checkpoints, py::arg("model_dir"));
}

}  // namespace muster::python
