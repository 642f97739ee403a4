#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <cstring>
#include <string>
#include <type_traits>

#include "muster/distribution/wire/message_table_internal.h"

// For tests: a message of every kind, with something in all of its fields.
namespace muster::internal::samples {

/// Sizes that the receiver of such messages expects.
inline ExpectedTensors expected() {
  return {.replicas = 4,
          .flat_size = 5,
          .tables = {{.rows = 6, .width = 2}, {.rows = 3, .width = 1}},
          .buffers = {at::full({3}, 0.5F), at::full({}, 7, at::kLong)},
          .trainers = 3};
}

inline const std::string& text() {
  static const std::string text = "a text of a message";
  return text;
}

inline void fill_tensors(VariableTensors& value) {
  value = {.flat = at::arange(8, at::kFloat),
           .ranges = {{0, 2}, {4, 7}},
           .rows = {{at::arange(2, 5, at::kLong), at::full({3, 2}, 0.25F)}, {}}};
}
inline void fill_tensors(BufferTensors& value) { value.tensors = expected().buffers; }
inline void fill_tensors(BodyDoubles& value) { value.values = {1.5, 0, 2.5}; }
inline void fill_tensors(BodyBytes& value) { value.bytes = std::as_bytes(std::span(text())); }

template <typename T>
void fill(T& value) {
  using Kind = FieldKind<T>;
  if constexpr (std::is_empty_v<T>) {
    return;
  } else if constexpr (HasBody<T>) {
    fill_tensors(value);
  } else if constexpr (std::same_as<T, std::string>) {
    value = text();
  } else if constexpr (Kind::is_optional) {
    fill(value.emplace());
  } else if constexpr (Kind::is_list) {
    value.resize(2);
    fill(value.front());
  } else if constexpr (HasFields<T>) {
    std::apply([](auto&... field) { (fill(field), ...); }, fields_of(value));
  } else {
    value = static_cast<T>(1);
  }
}

/// Where fields must fit together.
template <typename Message>
void fit(Message& /*message*/) {}
template <>
inline void fit(GenerationPlan& message) {
  message.members[0].shares_processor = false;
  message.members[1].shares_processor = true;
}
template <>
inline void fit(StepGradients& message) {
  message.replicas = {0, 2};
  message.sums.resize(1);
  message.sums[0].first = 0;
  message.sums[0].last = 2;
}
template <>
inline void fit(AsyncPush& message) {
  message.replicas = {0, 2};
}

template <typename Message>
Message sample() {
  Message message{};
  fill(message);
  fit(message);
  return message;
}

/// The body as it arrives.
inline std::string body_of(const EncodedMessage& message) {
  std::string bytes;
  for (const auto& piece : message.body) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return bytes;
}
inline net::Buffer buffer_of(std::string_view bytes) {
  net::Buffer buffer(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return buffer;
}

/// Calls `work` with std::type_identity<Message> for every message of the table.
template <typename Work, typename... Entries>
void for_each_entry(MessageList<Entries...>, const Work& work) {
  (work(std::type_identity<typename Entries::Struct>{}), ...);
}
template <typename Work>
void for_each_message(const Work& work) {
  for_each_entry(MessageTable{}, work);
}

}  // namespace muster::internal::samples
