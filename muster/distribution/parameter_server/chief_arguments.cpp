#include "muster/base/error.h"
#include "muster/distribution/membership/membership_internal.h"
#include "muster/distribution/membership/task_address_internal.h"
#include "muster/distribution/parameter_server.h"

namespace muster {

std::vector<std::string> arguments_of_chief(const RunConfig& config, const PeerOptions& options) {
  const Peer chief = internal::chief_of(config.cluster.task);
  const Deadline deadline = Deadline::after(config.cluster.join_timeout);
  const auto connection = net::Connection::connect(
      chief.address, internal::identity_of(config, options), internal::kArgumentsPurpose, deadline,
      {.limits_by_type = internal::message_limits, .peer_task = chief.task.name()});
  auto frame = connection->receive(deadline);
  if (!frame || !internal::is_message<internal::ChiefArguments>(*frame)) {
    throw Unavailable("{} broke off when it was asked for its arguments", connection->peer());
  }
  return internal::decode<internal::ChiefArguments>(std::move(*frame)).words;
}

}  // namespace muster
