#include "muster/data/records/example_parser.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "muster/base/error.h"
#include "muster/data/records/wire.h"

namespace muster {
namespace {

using wire::Reader;

constexpr std::uint32_t kField1 = wire::tag(1, wire::kBytes);
constexpr std::uint32_t kField2 = wire::tag(2, wire::kBytes);
constexpr std::uint32_t kField3 = wire::tag(3, wire::kBytes);

/// A message inside the serialised Example, or several pieces of one put together.
struct Piece {
  std::string_view bytes{};
  std::size_t offset = 0;
  std::shared_ptr<std::string> merged{};

  /// Protobuf merges a message that comes twice, which for lists is the pieces one after the other.
  void add(std::string_view more) {
    if (!merged) merged = std::make_shared<std::string>(bytes);
    merged->append(more);
    bytes = *merged;
  }
};

struct FeatureEntry {
  std::string_view key{};
  Piece value{};
};

/// Any order, unknown fields between, fields that come twice.
void read_odd_entry(Reader reader, FeatureEntry& entry) {
  entry = {};
  bool has_value = false;
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kField1) {
      entry.key = reader.bytes();
    } else if (tag == kField2) {
      const std::string_view value = reader.bytes();
      if (has_value) {
        entry.value.add(value);
      } else {
        entry.value.bytes = value;
        entry.value.offset = reader.offset() - value.size();
        has_value = true;
      }
    } else {
      reader.skip(tag);
    }
  }
}

/// One entry of a map: practically always a key, then a value, and nothing else.
void read_entry(std::string_view bytes, std::size_t offset, FeatureEntry& entry) {
  Reader reader(bytes, offset);
  if (reader.accept(kField1)) {
    entry.key = reader.bytes();
    if (reader.accept(kField2)) {
      entry.value.bytes = reader.bytes();
      entry.value.offset = reader.offset() - entry.value.bytes.size();
      if (reader.done()) return;
    }
  }
  read_odd_entry(Reader(bytes, offset), entry);
}

/// Calls visit(entry) for every entry of a message that is one map.
template <typename Visit>
void for_each_entry(std::string_view map, std::size_t offset, Visit visit) {
  Reader reader(map, offset);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag != kField1) {
      reader.skip(tag);
      continue;
    }
    const std::string_view bytes = reader.bytes();
    FeatureEntry entry;
    read_entry(bytes, reader.offset() - bytes.size(), entry);
    visit(entry);
  }
}

/// Calls visit(entry) for the features of an Example, or for those of a SequenceExample's part.
template <typename Visit>
void for_each_entry_of(std::uint32_t part, std::string_view example, Visit visit) {
  Reader reader(example, 0);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag != part) {
      reader.skip(tag);
      continue;
    }
    const std::string_view map = reader.bytes();
    for_each_entry(map, reader.offset() - map.size(), visit);
  }
}

/// Looks a key up in a short list, beginning after the last one found: writers keep their order.
class KeyFinder {
 public:
  explicit KeyFinder(std::span<const std::string> keys) : keys_(keys) {}

  /// The key's number, or the number of keys.
  std::size_t find(std::string_view key) {
    for (std::size_t i = next_; i < keys_.size(); ++i) {
      if (matches(i, key)) return found(i);
    }
    for (std::size_t i = 0; i < next_; ++i) {
      if (matches(i, key)) return found(i);
    }
    return keys_.size();
  }

 private:
  bool matches(std::size_t i, std::string_view key) const { return keys_[i] == key; }
  std::size_t found(std::size_t i) {
    next_ = i + 1;
    return i;
  }

  std::span<const std::string> keys_;
  std::size_t next_ = 0;
};

void check_keys(const std::vector<std::string>& keys) {
  std::set<std::string_view> seen;
  for (const auto& key : keys) {
    if (!seen.insert(key).second) throw InvalidArgument("feature '{}' is asked for twice", key);
  }
}

std::vector<std::string> keys_of(std::uint32_t part, std::string_view example) {
  std::set<std::string, std::less<>> keys;
  for_each_entry_of(part, example, [&keys](const FeatureEntry& entry) { keys.emplace(entry.key); });
  return {keys.begin(), keys.end()};
}

// The walks below call visit with every value, or a run of them, until it returns false.

template <typename Visit>
void walk_bytes(std::string_view list, std::size_t offset, Visit visit) {
  Reader reader(list, offset);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag != kField1) {
      reader.skip(tag);
    } else if (!visit(reader.bytes())) {
      return;
    }
  }
}

template <typename Visit>
void walk_int64s(std::string_view list, std::size_t offset, Visit visit) {
  Reader reader(list, offset);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kField1) {
      const std::string_view packed = reader.bytes();
      Reader values(packed, reader.offset() - packed.size());
      while (!values.done()) {
        if (!visit(static_cast<std::int64_t>(values.varint()))) return;
      }
    } else if (tag == wire::tag(1, wire::kVarint)) {
      if (!visit(static_cast<std::int64_t>(reader.varint()))) return;
    } else {
      reader.skip(tag);
    }
  }
}

/// visit(bytes): the floats of one run, as they are in memory, perhaps not aligned.
template <typename Visit>
void walk_floats(std::string_view list, std::size_t offset, Visit visit) {
  Reader reader(list, offset);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kField1) {
      const std::string_view packed = reader.bytes();
      if (packed.size() % sizeof(float) != 0)
        reader.fail("packed floats of a length that is no multiple of 4");
      if (!visit(packed)) return;
    } else if (tag == wire::tag(1, wire::kFixed32)) {
      const float value = reader.fixed32_float();
      if (!visit(std::string_view(reinterpret_cast<const char*>(&value), sizeof value))) return;
    } else {
      reader.skip(tag);
    }
  }
}

[[noreturn]] void fail_empty(FeatureKind wanted, FeatureKind found, std::size_t offset) {
  throw DataLoss("no {} value in the {} feature at offset {}", name_of(wanted), name_of(found),
                 offset);
}

}  // namespace

/// The one place that fills views.
class FeatureReader {
 public:
  static void reset(FeatureView& view) {
    view.kind_ = FeatureKind::kNone;
    view.list_ = {};
    if (view.merged_) view.merged_.reset();
  }

  /// A Feature message: practically always one list and nothing else.
  static void read(const Piece& feature, FeatureView& view) {
    reset(view);
    Reader reader(feature.bytes, feature.offset);
    while (!reader.done()) {
      const std::uint32_t tag = reader.tag();
      if (tag == kField1 || tag == kField2 || tag == kField3) {
        add_list(static_cast<FeatureKind>(tag >> 3), reader, view);
      } else {
        reader.skip(tag);
      }
    }
    // The views of a feature that was itself put together point into that.
    if (feature.merged && !view.merged_) view.merged_ = feature.merged;
  }

  static void read(FeatureEntry& entry, FeatureListView& view) {
    view.present_ = true;
    view.list_ = entry.value.bytes;
    view.offset_ = entry.value.offset;
    view.merged_ = std::move(entry.value.merged);
  }

 private:
  static void add_list(FeatureKind kind, Reader& reader, FeatureView& view) {
    const std::string_view list = reader.bytes();
    if (view.kind_ == kind) {
      Piece whole{view.list_, view.offset_, std::move(view.merged_)};
      whole.add(list);
      view.list_ = whole.bytes;
      view.merged_ = std::move(whole.merged);
      return;
    }
    reset(view);
    view.kind_ = kind;
    view.list_ = list;
    view.offset_ = reader.offset() - list.size();
  }
};

std::string_view name_of(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kNone:
      return "none";
    case FeatureKind::kBytes:
      return "bytes";
    case FeatureKind::kFloat:
      return "float";
    case FeatureKind::kInt64:
      return "int64";
  }
  throw Internal("no such feature kind: {}", static_cast<int>(kind));
}

std::size_t FeatureView::count() const {
  std::size_t count = 0;
  switch (kind_) {
    case FeatureKind::kNone:
      break;
    case FeatureKind::kBytes:
      walk_bytes(list_, offset_, [&count](std::string_view) { return ++count, true; });
      break;
    case FeatureKind::kFloat:
      walk_floats(list_, offset_, [&count](std::string_view run) {
        return count += run.size() / sizeof(float), true;
      });
      break;
    case FeatureKind::kInt64:
      walk_int64s(list_, offset_, [&count](std::int64_t) { return ++count, true; });
      break;
  }
  return count;
}

std::string_view FeatureView::first_bytes() const {
  std::string_view first;
  if (kind_ != FeatureKind::kBytes) return first;
  walk_bytes(list_, offset_, [&first](std::string_view value) { return first = value, false; });
  return first;
}

std::int64_t FeatureView::first_int64() const {
  std::optional<std::int64_t> first;
  if (kind_ == FeatureKind::kInt64) {
    walk_int64s(list_, offset_, [&first](std::int64_t value) { return first = value, false; });
  }
  if (!first) fail_empty(FeatureKind::kInt64, kind_, offset_);
  return *first;
}

float FeatureView::first_float() const {
  float first = 0;
  if (copy_to(std::span(&first, 1)) == 0) fail_empty(FeatureKind::kFloat, kind_, offset_);
  return first;
}

void FeatureView::append_to(std::vector<std::string_view>& out) const {
  if (kind_ != FeatureKind::kBytes) return;
  walk_bytes(list_, offset_, [&out](std::string_view value) { return out.push_back(value), true; });
}

void FeatureView::append_to(std::vector<std::int64_t>& out) const {
  if (kind_ != FeatureKind::kInt64) return;
  walk_int64s(list_, offset_, [&out](std::int64_t value) { return out.push_back(value), true; });
}

void FeatureView::append_to(std::vector<float>& out) const {
  if (kind_ != FeatureKind::kFloat) return;
  walk_floats(list_, offset_, [&out](std::string_view run) {
    if (run.empty()) return true;  // memcpy takes no null pointer, also for no bytes
    const std::size_t old_size = out.size();
    out.resize(old_size + run.size() / sizeof(float));
    std::memcpy(out.data() + old_size, run.data(), run.size());
    return true;
  });
}

std::size_t FeatureView::copy_to(std::span<std::string_view> out) const {
  if (kind_ != FeatureKind::kBytes) return 0;
  std::size_t count = 0;
  walk_bytes(list_, offset_, [&](std::string_view value) {
    if (count < out.size()) out[count] = value;
    return ++count, true;
  });
  return count;
}

std::size_t FeatureView::copy_to(std::span<std::int64_t> out) const {
  if (kind_ != FeatureKind::kInt64) return 0;
  std::size_t count = 0;
  walk_int64s(list_, offset_, [&](std::int64_t value) {
    if (count < out.size()) out[count] = value;
    return ++count, true;
  });
  return count;
}

std::size_t FeatureView::copy_to(std::span<float> out) const {
  if (kind_ != FeatureKind::kFloat) return 0;
  std::size_t count = 0;
  walk_floats(list_, offset_, [&](std::string_view run) {
    const std::size_t room = count < out.size() ? out.size() - count : 0;
    const std::size_t taken = std::min(room, run.size() / sizeof(float));
    if (taken > 0) std::memcpy(out.data() + count, run.data(), taken * sizeof(float));
    count += run.size() / sizeof(float);
    return true;
  });
  return count;
}

std::vector<FeatureView> FeatureListView::steps() const {
  std::vector<FeatureView> steps;
  Reader reader(list_, offset_);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag != kField1) {
      reader.skip(tag);
      continue;
    }
    const std::string_view feature = reader.bytes();
    FeatureReader::read(Piece{feature, reader.offset() - feature.size(), merged_},
                        steps.emplace_back());
  }
  return steps;
}

ExampleParser::ExampleParser(std::vector<std::string> keys) : keys_(std::move(keys)) {
  check_keys(keys_);
}

void ExampleParser::parse(std::string_view example, ExampleView& out) const {
  out.resize(keys_.size());
  for (auto& view : out) FeatureReader::reset(view);
  KeyFinder finder(keys_);
  for_each_entry_of(kField1, example, [&](const FeatureEntry& entry) {
    const std::size_t number = finder.find(entry.key);
    if (number < out.size()) FeatureReader::read(entry.value, out[number]);
  });
}

ExampleView ExampleParser::parse(std::string_view example) const {
  ExampleView out;
  parse(example, out);
  return out;
}

SequenceExampleParser::SequenceExampleParser(std::vector<std::string> context_keys,
                                             std::vector<std::string> list_keys)
    : context_keys_(std::move(context_keys)), list_keys_(std::move(list_keys)) {
  check_keys(context_keys_);
  check_keys(list_keys_);
}

void SequenceExampleParser::parse(std::string_view example, SequenceExampleView& out) const {
  out.context.assign(context_keys_.size(), {});
  out.lists.assign(list_keys_.size(), {});
  KeyFinder contexts(context_keys_);
  for_each_entry_of(kField1, example, [&](const FeatureEntry& entry) {
    const std::size_t number = contexts.find(entry.key);
    if (number < out.context.size()) FeatureReader::read(entry.value, out.context[number]);
  });
  KeyFinder lists(list_keys_);
  for_each_entry_of(kField2, example, [&](FeatureEntry& entry) {
    const std::size_t number = lists.find(entry.key);
    if (number < out.lists.size()) FeatureReader::read(entry, out.lists[number]);
  });
}

std::vector<std::string> example_keys(std::string_view example) {
  return keys_of(kField1, example);
}

SequenceExampleKeys sequence_example_keys(std::string_view example) {
  return {.context = keys_of(kField1, example), .lists = keys_of(kField2, example)};
}

}  // namespace muster
