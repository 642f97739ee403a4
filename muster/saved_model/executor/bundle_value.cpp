#include <ATen/Functions.h>

#include <cstring>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/saved_model/executor/bundle_value_internal.h"

namespace muster::executor {

Value read_value(const BundleReader& bundle, const std::string& name) {
  const TensorSpec spec = bundle.spec(name);
  if (spec.type == DataType::kString) {
    return StringTensor(bundle.read_strings(name), spec.shape);
  }
  const auto type = graph::data_type_from(static_cast<std::int64_t>(spec.type));
  const TensorData data = bundle.read(name);
  // A copy: mapped bytes are read-only and may not be aligned.
  at::Tensor tensor = at::empty(spec.shape, scalar_type(type.value_or(graph::DataType::kInvalid)));
  if (!data.bytes.empty()) std::memcpy(tensor.data_ptr(), data.bytes.data(), data.bytes.size());
  return tensor;
}

}  // namespace muster::executor
