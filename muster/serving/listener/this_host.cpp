#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>

#include "muster/serving/listener/this_host.h"

namespace muster::serving {

bool is_this_host(const sockaddr& peer) {
  constexpr std::uint8_t kLoopback = 127;
  if (peer.sa_family == AF_UNIX) return true;
  if (peer.sa_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(peer);
    return ntohl(address.sin_addr.s_addr) >> 24 == kLoopback;
  }
  if (peer.sa_family != AF_INET6) return false;
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&address) ||
         (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == kLoopback);
}

}  // namespace muster::serving
