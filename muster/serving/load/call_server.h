#pragma once

#include <string>

#include "muster/base/wait.h"
#include "muster/serving/load/client_session.h"
#include "muster/serving/load/client_socket.h"

namespace muster::serving {

/// Asks a server one thing, on a connection of its own, and waits for the answer. Throws
/// Unavailable where no server answers by the deadline, else FailedPrecondition with the server's
/// words.
std::string call_server(const ServerAddress& server, bool over_grpc, const std::string& token,
                        const PreparedRequest& request, const Deadline& deadline);

}  // namespace muster::serving
