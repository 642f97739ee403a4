#include "muster/saved_model/executor/value.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <cstring>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/sizes_internal.h"

namespace muster::executor {
namespace {

using graph::DataType;

constexpr std::pair<DataType, at::ScalarType> kTypes[] = {
    {DataType::kFloat, at::kFloat}, {DataType::kDouble, at::kDouble},
    {DataType::kInt32, at::kInt},   {DataType::kInt64, at::kLong},
    {DataType::kInt16, at::kShort}, {DataType::kInt8, at::kChar},
    {DataType::kUint8, at::kByte},  {DataType::kBool, at::kBool},
    {DataType::kHalf, at::kHalf},   {DataType::kBfloat16, at::kBFloat16},
};

void check_shape(const std::vector<std::int64_t>& shape, std::size_t strings) {
  check_countable(shape);
  const auto count = graph::element_count(shape);
  if (!count || static_cast<std::size_t>(*count) != strings) {
    throw InvalidArgument("{} strings do not fill the shape [{}]", strings, fmt::join(shape, ", "));
  }
}

// libtorch counts the bytes of sizes one by one, and refuses some that hold no element at all.
at::Tensor empty_tensor(const std::vector<std::int64_t>& shape, at::ScalarType type) {
  check_countable(shape);
  try {
    return at::empty(shape, type);
  } catch (const c10::Error& error) {
    throw InvalidArgument("a tensor of the shape [{}] cannot be made: {}", fmt::join(shape, ", "),
                          error.what_without_backtrace());
  }
}

}  // namespace

StringTensor::StringTensor(std::vector<std::string> values, std::vector<std::int64_t> shape)
    : values_(std::make_shared<const std::vector<std::string>>(std::move(values))),
      shape_(std::make_shared<const std::vector<std::int64_t>>(std::move(shape))) {
  check_shape(*shape_, values_->size());
}

StringTensor::StringTensor(std::vector<std::string> values)
    : values_(std::make_shared<const std::vector<std::string>>(std::move(values))),
      shape_(std::make_shared<const std::vector<std::int64_t>>(
          1, static_cast<std::int64_t>(values_->size()))) {}

StringTensor StringTensor::reshaped(std::vector<std::int64_t> shape) const {
  check_shape(shape, values_->size());
  StringTensor other = *this;
  other.shape_ = std::make_shared<const std::vector<std::int64_t>>(std::move(shape));
  return other;
}

bool StringTensor::operator==(const StringTensor& other) const {
  return *shape_ == *other.shape_ && *values_ == *other.values_;
}

at::ScalarType scalar_type(DataType type) {
  for (const auto& [theirs, ours] : kTypes) {
    if (theirs == graph::without_ref(type)) return ours;
  }
  throw Unimplemented("tensors of type {} are not supported", graph::name_of(type));
}

DataType data_type(at::ScalarType type) {
  for (const auto& [theirs, ours] : kTypes) {
    if (ours == type) return theirs;
  }
  throw Unimplemented("TensorFlow has no tensors of type {}", c10::toString(type));
}

DataType data_type_of(const Value& value) {
  const auto* tensor = std::get_if<at::Tensor>(&value);
  return tensor ? data_type(tensor->scalar_type()) : DataType::kString;
}

std::vector<std::int64_t> shape_of(const Value& value) {
  const auto* tensor = std::get_if<at::Tensor>(&value);
  return tensor ? tensor->sizes().vec() : std::get<StringTensor>(value).shape();
}

std::string describe(const Value& value) {
  return fmt::format("{} [{}]", graph::name_of(data_type_of(value)),
                     fmt::join(shape_of(value), ", "));
}

Value to_value(const graph::TensorValue& tensor) {
  tensor.check();
  if (tensor.dtype == DataType::kString) return StringTensor(tensor.strings, tensor.shape);
  at::Tensor made = empty_tensor(tensor.shape, scalar_type(tensor.dtype));
  if (made.nbytes() != tensor.bytes.size()) {
    throw InvalidArgument("the constant has {} bytes, not {}", tensor.bytes.size(), made.nbytes());
  }
  if (!tensor.bytes.empty()) std::memcpy(made.data_ptr(), tensor.bytes.data(), made.nbytes());
  return made;
}

graph::TensorValue to_tensor_value(const Value& value) {
  if (const auto* strings = std::get_if<StringTensor>(&value)) {
    return graph::TensorValue::of_strings(strings->shape(), strings->values());
  }
  const at::Tensor tensor = std::get<at::Tensor>(value).cpu().contiguous();
  graph::TensorValue made{.dtype = data_type(tensor.scalar_type()), .shape = tensor.sizes().vec()};
  made.bytes.assign(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  return made;
}

}  // namespace muster::executor
