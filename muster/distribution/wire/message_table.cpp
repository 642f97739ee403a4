#include "muster/distribution/wire/message_table_internal.h"

#include <fmt/core.h>

namespace muster::internal {

const MessageKind* find_message(std::uint32_t number) {
  const auto found = std::ranges::find(kMessageKinds, number, &MessageKind::number);
  return found == kMessageKinds.end() ? nullptr : &*found;
}

std::string describe_message(std::uint32_t number) {
  const MessageKind* const kind = find_message(number);
  return kind == nullptr ? fmt::format("a message of type {}", number)
                         : fmt::format("'{}'", kind->name);
}

net::FrameLimits message_limits(std::uint32_t number) {
  const MessageKind* const kind = find_message(number);
  return kind == nullptr ? net::FrameLimits{.max_header = 0, .max_body = 0} : kind->limits;
}

}  // namespace muster::internal
