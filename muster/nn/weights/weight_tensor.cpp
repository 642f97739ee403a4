#include "muster/nn/weights/weight_tensor.h"

#include <ATen/Functions.h>

#include <cstring>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::pair<at::ScalarType, DataType> kWeightTypes[] = {
    {at::kFloat, DataType::kFloat},
    {at::kDouble, DataType::kDouble},
    {at::kHalf, DataType::kHalf},
    {at::kBFloat16, DataType::kBfloat16},
    {at::kLong, DataType::kInt64},
    {at::kInt, DataType::kInt32},
    {at::kShort, DataType::kInt16},
    {at::kChar, DataType::kInt8},
    {at::kByte, DataType::kUint8},
    {at::kBool, DataType::kBool},
    {at::kComplexFloat, DataType::kComplex64},
    {at::kComplexDouble, DataType::kComplex128},
};

DataType data_type_of_tensor(const std::string& name, const at::Tensor& tensor) {
  for (const auto& [theirs, ours] : kWeightTypes) {
    if (theirs == tensor.scalar_type()) return ours;
  }
  throw InvalidArgument("the tensor {} has a type that files of weights lack: {}", name,
                        c10::toString(tensor.scalar_type()));
}

}  // namespace

at::ScalarType scalar_type_of(const Weight& weight) {
  for (const auto& [theirs, ours] : kWeightTypes) {
    if (ours == weight.spec.type) return theirs;
  }
  throw InvalidArgument("the tensor {} has a type that libtorch lacks: {}", weight.name,
                        numpy_name(weight.spec.type));
}

at::Tensor tensor_of(const Weight& weight) {
  at::Tensor tensor = at::empty(weight.spec.shape, at::TensorOptions(scalar_type_of(weight)));
  const WeightBytes bytes = row_major_bytes(weight);
  if (!bytes.bytes.empty()) {
    std::memcpy(tensor.data_ptr(), bytes.bytes.data(), bytes.bytes.size());
  }
  return tensor;
}

Weight WeightsOfTensors::weight_of(std::string name, const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) {
    throw InvalidArgument("the tensor {} is not strided: call to_dense()", name);
  }
  const DataType type = data_type_of_tensor(name, tensor);
  const at::Tensor on_cpu = tensor.detach().cpu();
  auto& storage = storages_[on_cpu.storage().unsafeGetStorageImpl()];
  if (!storage) {
    const auto keeper = std::make_shared<at::Tensor>(on_cpu);
    storage =
        storage_of(WeightBytes{.bytes = {static_cast<const std::byte*>(keeper->storage().data()),
                                         keeper->storage().nbytes()},
                               .owner = keeper});
  }
  const auto first = static_cast<std::uint64_t>(on_cpu.storage_offset()) * element_bytes(type);
  return {.name = std::move(name),
          .spec = {.type = type, .shape = on_cpu.sizes().vec()},
          .strides = on_cpu.strides().vec(),
          .storage = storage,
          .first_byte = first};
}

}  // namespace muster
