#include "muster/executor/value.h"

#include <fmt/ranges.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/graph/tensor_value.h"

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
  const auto count = graph::element_count(shape);
  if (!count || static_cast<std::size_t>(*count) != strings) {
    throw InvalidArgument("{} strings do not fill the shape [{}]", strings, fmt::join(shape, ", "));
  }
}

}  // namespace

StringTensor::StringTensor(std::vector<std::string> values, std::vector<std::int64_t> shape)
    : values_(std::make_shared<const std::vector<std::string>>(std::move(values))),
      shape_(std::move(shape)) {
  check_shape(shape_, values_->size());
}

StringTensor::StringTensor(std::vector<std::string> values)
    : values_(std::make_shared<const std::vector<std::string>>(std::move(values))),
      shape_{static_cast<std::int64_t>(values_->size())} {}

StringTensor StringTensor::reshaped(std::vector<std::int64_t> shape) const {
  check_shape(shape, values_->size());
  StringTensor other = *this;
  other.shape_ = std::move(shape);
  return other;
}

bool StringTensor::operator==(const StringTensor& other) const {
  return shape_ == other.shape_ && *values_ == *other.values_;
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

}  // namespace muster::executor
