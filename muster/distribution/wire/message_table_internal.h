#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "muster/distribution/wire/messages_internal.h"
#include "muster/platform/net/connection.h"

namespace muster::internal {

/// Headers have texts and positions of inputs in them.
inline constexpr std::uint64_t kLargestHeader = std::uint64_t{16} << 20;
/// A server's whole part of the gradients is one message.
inline constexpr std::uint64_t kLargestBody = std::uint64_t{1} << 36;

/// Description of a message for code that does not know its struct.
struct MessageKind {
  std::uint32_t number = 0;
  std::string_view name{};
  net::FrameLimits limits{};
};
template <typename Message>
constexpr net::FrameLimits limits_of_message() {
  constexpr FieldSizes kSizes = sizes_of_fields<Message>();
  return {.max_header = kSizes.is_fixed ? kSizes.least_header : kLargestHeader,
          .max_body = kSizes.has_body ? kLargestBody : 0};
}
template <typename... Entries>
constexpr auto message_kinds(MessageList<Entries...>) {
  return std::array{MessageKind{Entries::kNumber, Entries::kName,
                                limits_of_message<typename Entries::Struct>()}...};
}
inline constexpr auto kMessageKinds = message_kinds(MessageTable{});
static_assert(std::ranges::adjacent_find(kMessageKinds, std::ranges::greater_equal{},
                                         &MessageKind::number) == kMessageKinds.end(),
              "numbers rise from line to line");

template <typename Message, typename... Entries>
consteval const MessageKind& find_message_kind(MessageList<Entries...>) {
  static_assert((std::is_same_v<Message, typename Entries::Struct> || ...),
                "the message is in no line of MessageTable");
  constexpr std::array kIsIt{std::is_same_v<Message, typename Entries::Struct>...};
  return kMessageKinds[static_cast<std::size_t>(std::ranges::find(kIsIt, true) - kIsIt.begin())];
}
/// The line of a message.
template <typename Message>
inline constexpr const MessageKind& kKind = find_message_kind<Message>(MessageTable{});

/// Null for a number that no message has.
const MessageKind* find_message(std::uint32_t number);
/// For errors: "'values'", or "a message of type 99".
std::string describe_message(std::uint32_t number);
/// For net::ConnectionOptions: nothing for a number that no message has.
net::FrameLimits message_limits(std::uint32_t number);

template <typename Message>
bool is_message(const net::Frame& frame) {
  return frame.type == kKind<Message>.number;
}

/// The message must live until it is sent.
template <typename Message>
EncodedMessage encode(const Message& message) {
  MessageWriter writer;
  writer.put(message);
  return writer.take();
}

/// The name is for errors.
template <typename Struct>
Struct decode_as(std::string_view name, std::string_view header, net::Buffer body,
                 const ExpectedTensors& expected) {
  MessageReader reader(header, std::move(body), expected);
  auto value = reader.take<Struct>();
  if (!reader.at_end() || reader.body_left() != 0) {
    throw DataLoss("'{}' is longer than it can be", name);
  }
  if constexpr (requires { value.check(expected); }) value.check(expected);
  return value;
}

/// Throws DataLoss for what is no such message, or does not fit what is expected. The header and
/// the body are the frame's; the result keeps the body.
template <typename Message>
Message decode(std::string_view header, net::Buffer body = {},
               const ExpectedTensors& expected = {}) {
  return decode_as<Message>(kKind<Message>.name, header, std::move(body), expected);
}
template <typename Message>
Message decode(net::Frame frame, const ExpectedTensors& expected = {}) {
  return decode<Message>(frame.header, std::move(frame.body), expected);
}

/// Decodes a frame as the one of these messages that it is, and calls `handler` with it. False for
/// a frame that is none of them.
template <typename... Messages, typename Handler>
bool dispatch(net::Frame& frame, const Handler& handler) {
  const auto try_one = [&]<typename Message>(std::type_identity<Message>) {
    if (!is_message<Message>(frame)) return false;
    handler(decode<Message>(std::move(frame)));
    return true;
  };
  return (try_one(std::type_identity<Messages>{}) || ...);
}
/// Handlers of several messages as one.
template <typename... Handlers>
struct Handle : Handlers... {
  using Handlers::operator()...;
};

template <typename Message>
void send(net::Connection& connection, const Message& message, const Deadline& deadline) {
  const EncodedMessage encoded = encode(message);
  connection.send(kKind<Message>.number, encoded.header, encoded.body, deadline);
}

}  // namespace muster::internal
