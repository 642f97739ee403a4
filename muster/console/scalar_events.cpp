#include "muster/console/scalar_events.h"

#include <bit>

#include "muster/records/wire.h"
#include "muster/summary/event.h"

namespace muster::console {
namespace {

// Fields of tensorflow.Event and tensorflow.Summary.Value.
constexpr std::uint32_t kWallTime = wire::tag(1, wire::kFixed64);
constexpr std::uint32_t kStep = wire::tag(2, wire::kVarint);
constexpr std::uint32_t kSummary = wire::tag(5, wire::kBytes);
constexpr std::uint32_t kValue = wire::tag(1, wire::kBytes);
constexpr std::uint32_t kTag = wire::tag(1, wire::kBytes);
constexpr std::uint32_t kSimpleValue = wire::tag(2, wire::kFixed32);
constexpr std::uint32_t kTensor = wire::tag(8, wire::kBytes);
// A larger tensor is no scalar.
constexpr std::size_t kMostScalarBytes = 64;

struct Fields {
  double time = 0;
  std::int64_t step = 0;
  std::string_view summary{};
};

Fields fields_of(std::string_view record) {
  Fields fields;
  wire::Reader reader(record, 0);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kWallTime) {
      fields.time = std::bit_cast<double>(reader.fixed64());
    } else if (tag == kStep) {
      fields.step = static_cast<std::int64_t>(reader.varint());
    } else if (tag == kSummary) {
      fields.summary = reader.bytes();
    } else {
      reader.skip(tag);
    }
  }
  return fields;
}

struct Value {
  std::string_view tag{};
  float simple = 0;
  bool is_simple = false;
  bool is_small_tensor = false;
};

Value value_of(std::string_view bytes) {
  Value value;
  wire::Reader reader(bytes, 0);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kTag) {
      value.tag = reader.bytes();
    } else if (tag == kSimpleValue) {
      value.simple = reader.fixed32_float();
      value.is_simple = true;
    } else if (tag == kTensor) {
      value.is_small_tensor = reader.bytes().size() <= kMostScalarBytes;
    } else {
      reader.skip(tag);
    }
  }
  return value;
}

// TensorFlow 2 writes scalars as tensors.
void take_tensors(std::string_view record, const std::function<void(const ScalarEvent&)>& take) {
  const Event event = decode_event(record);
  const auto* summary = std::get_if<Summary>(&event.what);
  if (summary == nullptr) return;
  for (const SummaryValue& value : *summary) {
    if (std::holds_alternative<float>(value.data)) continue;
    if (const auto scalar = scalar_of(value)) {
      take({value.tag, event.step, event.wall_time, *scalar});
    }
  }
}

}  // namespace

void scan_scalars(std::string_view record, const std::function<void(const ScalarEvent&)>& take) {
  const Fields fields = fields_of(record);
  bool has_tensors = false;
  wire::Reader reader(fields.summary, 0);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag != kValue) {
      reader.skip(tag);
      continue;
    }
    const Value value = value_of(reader.bytes());
    if (value.is_simple) take({value.tag, fields.step, fields.time, value.simple});
    has_tensors = has_tensors || value.is_small_tensor;
  }
  if (has_tensors) take_tensors(record, take);
}

}  // namespace muster::console
