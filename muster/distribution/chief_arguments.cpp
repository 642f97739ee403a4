#include "muster/base/error.h"
#include "muster/distribution/membership_internal.h"
#include "muster/distribution/parameter_server.h"
#include "muster/distribution/task_address_internal.h"

namespace muster {

std::vector<std::string> arguments_of_chief(const RunConfig& config, const PeerOptions& options) {
  const Peer chief = internal::chief_of(config.task);
  const Deadline deadline = Deadline::after(config.join_timeout);
  const auto connection = net::Connection::connect(
      chief.address, internal::identity_of(config, options), internal::kArgumentsPurpose, deadline,
      {.peer_task = chief.task.name()});
  const auto frame = connection->receive(deadline);
  if (!frame || frame->type != static_cast<std::uint32_t>(internal::MessageType::kArguments)) {
    throw Unavailable("{} broke off when it was asked for its arguments", connection->peer());
  }
  return internal::decode_words(frame->header);
}

}  // namespace muster
