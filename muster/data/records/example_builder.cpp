#include "muster/data/records/example_builder.h"

#include <numeric>

#include "muster/base/error.h"
#include "muster/data/records/wire.h"

namespace muster {
namespace {

using wire::append_header;
using wire::append_varint;
using wire::field_bytes;
using wire::varint_bytes;

std::uint64_t to_wire(std::int64_t value) { return static_cast<std::uint64_t>(value); }

/// How one kind of list is written: its number in Feature, and the payload of its message.
template <typename T>
struct ListWriter;

template <>
struct ListWriter<std::string> {
  static constexpr std::uint32_t kField = 1;
  static std::size_t size(const std::vector<std::string>& values) {
    std::size_t total = 0;
    for (const auto& value : values) total += field_bytes(value.size());
    return total;
  }
  static void write(const std::vector<std::string>& values, std::string& out) {
    for (const auto& value : values) {
      append_header(1, value.size(), out);
      out += value;
    }
  }
};

template <>
struct ListWriter<float> {
  static constexpr std::uint32_t kField = 2;
  static std::size_t size(const std::vector<float>& values) {
    return values.empty() ? 0 : field_bytes(values.size() * sizeof(float));
  }
  static void write(const std::vector<float>& values, std::string& out) {
    if (values.empty()) return;
    append_header(1, values.size() * sizeof(float), out);
    out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
};

template <>
struct ListWriter<std::int64_t> {
  static constexpr std::uint32_t kField = 3;
  static std::size_t packed_size(const std::vector<std::int64_t>& values) {
    std::size_t total = 0;
    for (const std::int64_t value : values) total += varint_bytes(to_wire(value));
    return total;
  }
  static std::size_t size(const std::vector<std::int64_t>& values) {
    return values.empty() ? 0 : field_bytes(packed_size(values));
  }
  static void write(const std::vector<std::int64_t>& values, std::string& out) {
    if (values.empty()) return;
    append_header(1, packed_size(values), out);
    for (const std::int64_t value : values) append_varint(to_wire(value), out);
  }
};

template <typename Values>
std::size_t feature_bytes(const Values& values) {
  return std::visit(
      []<typename T>(const std::vector<T>& list) { return field_bytes(ListWriter<T>::size(list)); },
      values);
}

template <typename Values>
void write_feature(const Values& values, std::string& out) {
  std::visit(
      [&out]<typename T>(const std::vector<T>& list) {
        append_header(ListWriter<T>::kField, ListWriter<T>::size(list), out);
        ListWriter<T>::write(list, out);
      },
      values);
}

/// A map is a repeated message of key and value.
std::size_t entry_bytes(const std::string& key, std::size_t value_bytes) {
  return field_bytes(key.size()) + field_bytes(value_bytes);
}

/// Everything of an entry but the value itself, which the caller appends.
void write_entry_head(const std::string& key, std::size_t value_bytes, std::string& out) {
  append_header(1, entry_bytes(key, value_bytes), out);
  append_header(1, key.size(), out);
  out += key;
  append_header(2, value_bytes, out);
}

template <typename Steps>
std::size_t feature_list_bytes(const Steps& steps) {
  std::size_t total = 0;
  for (const auto& step : steps) total += field_bytes(feature_bytes(step));
  return total;
}

}  // namespace

template <typename T>
std::vector<T>& ExampleBuilder::list(std::string_view key) {
  auto found = features_.find(key);
  if (found == features_.end()) {
    found = features_.emplace(std::string(key), std::vector<T>()).first;
  }
  auto* const values = std::get_if<std::vector<T>>(&found->second);
  if (!values) throw InvalidArgument("feature '{}' already has values of another kind", key);
  return *values;
}

ExampleBuilder& ExampleBuilder::add_bytes(std::string_view key, std::string_view value) {
  list<std::string>(key).emplace_back(value);
  return *this;
}

ExampleBuilder& ExampleBuilder::add_bytes(std::string_view key,
                                          std::span<const std::string_view> values) {
  auto& target = list<std::string>(key);
  target.insert(target.end(), values.begin(), values.end());
  return *this;
}

ExampleBuilder& ExampleBuilder::add_int(std::string_view key, std::int64_t value) {
  list<std::int64_t>(key).push_back(value);
  return *this;
}

ExampleBuilder& ExampleBuilder::add_ints(std::string_view key,
                                         std::span<const std::int64_t> values) {
  auto& target = list<std::int64_t>(key);
  target.insert(target.end(), values.begin(), values.end());
  return *this;
}

ExampleBuilder& ExampleBuilder::add_float(std::string_view key, float value) {
  list<float>(key).push_back(value);
  return *this;
}

ExampleBuilder& ExampleBuilder::add_floats(std::string_view key, std::span<const float> values) {
  auto& target = list<float>(key);
  target.insert(target.end(), values.begin(), values.end());
  return *this;
}

std::size_t ExampleBuilder::features_bytes(const Features& features) {
  std::size_t total = 0;
  for (const auto& [key, values] : features) {
    total += field_bytes(entry_bytes(key, feature_bytes(values)));
  }
  return total;
}

void ExampleBuilder::write_features(const Features& features, std::string& out) {
  append_header(1, features_bytes(features), out);
  for (const auto& [key, values] : features) {
    write_entry_head(key, feature_bytes(values), out);
    write_feature(values, out);
  }
}

void ExampleBuilder::serialize_to(std::string& out) const {
  out.reserve(out.size() + field_bytes(features_bytes(features_)));
  write_features(features_, out);
}

std::string ExampleBuilder::serialize() const {
  std::string out;
  serialize_to(out);
  return out;
}

SequenceExampleBuilder& SequenceExampleBuilder::add_step(std::string_view key,
                                                         std::span<const std::string_view> values) {
  lists_[std::string(key)].emplace_back(std::vector<std::string>(values.begin(), values.end()));
  return *this;
}

SequenceExampleBuilder& SequenceExampleBuilder::add_step(std::string_view key,
                                                         std::span<const std::int64_t> values) {
  lists_[std::string(key)].emplace_back(std::vector<std::int64_t>(values.begin(), values.end()));
  return *this;
}

SequenceExampleBuilder& SequenceExampleBuilder::add_step(std::string_view key,
                                                         std::span<const float> values) {
  lists_[std::string(key)].emplace_back(std::vector<float>(values.begin(), values.end()));
  return *this;
}

std::string SequenceExampleBuilder::serialize() const {
  std::string out;
  if (!context_.empty()) ExampleBuilder::write_features(context_.features_, out);
  std::size_t lists_bytes = 0;
  for (const auto& [key, steps] : lists_) {
    lists_bytes += field_bytes(entry_bytes(key, feature_list_bytes(steps)));
  }
  append_header(2, lists_bytes, out);
  for (const auto& [key, steps] : lists_) {
    write_entry_head(key, feature_list_bytes(steps), out);
    for (const auto& step : steps) {
      append_header(1, feature_bytes(step), out);
      write_feature(step, out);
    }
  }
  return out;
}

}  // namespace muster
