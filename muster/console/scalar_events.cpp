#include "muster/console/scalar_events.h"

#include <bit>
#include <cstring>

#include "muster/data/records/wire.h"
#include "muster/data/summary/event.h"

namespace muster::console {
namespace {

// Fields of tensorflow.Event and tensorflow.Summary.Value.
constexpr std::uint32_t kWallTime = wire::tag(1, wire::kFixed64);
constexpr std::uint32_t kStep = wire::tag(2, wire::kVarint);
constexpr std::uint32_t kGraph = wire::tag(4, wire::kBytes);
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
  bool has_graph = false;
};

struct Value {
  std::string_view tag{};
  float simple = 0;
  bool is_simple = false;
  bool is_small_tensor = false;
};

/// Walks over what nearly all events are, field by field in their order; millions of them are read
/// so. Anything else is left to wire::Reader, which also tells what is wrong.
class PlainWalk {
 public:
  explicit PlainWalk(std::string_view bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}

  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  bool accept(std::uint32_t tag) {
    if (at_ == end_ || static_cast<std::uint8_t>(*at_) != tag) return false;
    ++at_;
    return true;
  }
  template <typename Word>
  bool word(Word& out) {
    if (left() < sizeof(Word)) return false;
    std::memcpy(&out, at_, sizeof(Word));
    at_ += sizeof(Word);
    return true;
  }
  bool varint(std::uint64_t& out) {
    constexpr int kMostBits = 56;
    out = 0;
    for (int shift = 0; shift < kMostBits && at_ != end_; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(*at_++);
      out |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool bytes(std::string_view& out) {
    std::uint64_t size = 0;
    if (!varint(size) || size > left()) return false;
    out = {at_, size};
    at_ += size;
    return true;
  }

 private:
  const char* at_;
  const char* end_;
};

bool is_plain_event(std::string_view record, Fields& fields) {
  PlainWalk walk(record);
  std::uint64_t step = 0;
  if (!walk.accept(kWallTime) || !walk.word(fields.time)) return false;
  if (walk.accept(kStep) && !walk.varint(step)) return false;
  fields.step = static_cast<std::int64_t>(step);
  return walk.accept(kSummary) && walk.bytes(fields.summary) && walk.left() == 0;
}

Fields fields_of(std::string_view record) {
  Fields fields;
  if (is_plain_event(record, fields)) return fields;
  fields = {};
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
      fields.has_graph = fields.has_graph || tag == kGraph;
      reader.skip(tag);
    }
  }
  return fields;
}

// A tag and a number and nothing else at the front of a summary; it is taken off.
bool take_plain_value(std::string_view& summary, Value& value) {
  PlainWalk walk(summary);
  std::string_view bytes;
  if (!walk.accept(kValue) || !walk.bytes(bytes)) return false;
  PlainWalk inside(bytes);
  if (!inside.accept(kTag) || !inside.bytes(value.tag)) return false;
  if (!inside.accept(kSimpleValue) || !inside.word(value.simple) || inside.left() > 0) return false;
  summary.remove_prefix(summary.size() - walk.left());
  return true;
}

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

// The field at the front of a summary, whatever it is; it is taken off.
Value take_value(std::string_view& summary) {
  wire::Reader reader(summary, 0);
  const std::uint32_t tag = reader.tag();
  Value value;
  if (tag == kValue) {
    value = value_of(reader.bytes());
  } else {
    reader.skip(tag);
  }
  summary.remove_prefix(reader.offset());
  return value;
}

// TensorFlow 2 writes scalars as tensors. Returns whether there are values that are no scalars.
bool take_tensors(std::string_view record, const std::function<void(const ScalarEvent&)>& take) {
  const Event event = decode_event(record);
  const auto* summary = std::get_if<Summary>(&event.what);
  if (summary == nullptr) return false;
  bool has_others = false;
  for (const SummaryValue& value : *summary) {
    if (std::holds_alternative<float>(value.data)) continue;
    const auto scalar = scalar_of(value);
    if (scalar) take({value.tag, event.step, event.wall_time, *scalar});
    has_others = has_others || !scalar;
  }
  return has_others;
}

}  // namespace

bool scan_scalars(std::string_view record, const std::function<void(const ScalarEvent&)>& take) {
  const Fields fields = fields_of(record);
  std::string_view summary = fields.summary;
  bool has_tensors = false;
  bool has_others = fields.has_graph;
  while (!summary.empty()) {
    Value value;
    if (take_plain_value(summary, value)) {
      take({value.tag, fields.step, fields.time, value.simple});
      continue;
    }
    value = take_value(summary);
    if (value.is_simple) take({value.tag, fields.step, fields.time, value.simple});
    has_tensors = has_tensors || value.is_small_tensor;
    has_others = has_others || (!value.is_simple && !value.is_small_tensor);
  }
  if (has_tensors) has_others = take_tensors(record, take) || has_others;
  return has_others;
}

}  // namespace muster::console
