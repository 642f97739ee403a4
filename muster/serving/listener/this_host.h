#pragma once

#include <sys/socket.h>

namespace muster::serving {

/// Whether a peer is a process of this host: one that comes over a loopback address, also where
/// IPv6 maps one of IPv4, or over a Unix socket.
bool is_this_host(const sockaddr& peer);

}  // namespace muster::serving
