#include "muster/platform/net/address_internal.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/wait.h"

namespace muster::net {
namespace {

constexpr unsigned kMaxPort = 65535;

bool is_port(const std::string& text) {
  unsigned value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end && value <= kMaxPort;
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// An empty list where there is no such name; `error` says why.
AddressList look_up(const HostPort& where, Use use, int more_flags, int& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (use == Use::kListen ? AI_PASSIVE : 0) | more_flags;
  addrinfo* found = nullptr;
  const char* const host = where.host.empty() ? nullptr : where.host.c_str();
  error = ::getaddrinfo(host, where.port.c_str(), &hints, &found);
  return {error == 0 ? found : nullptr, &::freeaddrinfo};
}

}  // namespace

HostPort parse_host_port(const std::string& address) {
  const auto colon = address.rfind(':');
  HostPort result;
  if (colon != std::string::npos) {
    result.host = address.substr(0, colon);
    result.port = address.substr(colon + 1);
  }
  if (result.host.size() > 2 && result.host.front() == '[' && result.host.back() == ']') {
    result.host = result.host.substr(1, result.host.size() - 2);
  } else if (result.host.find_first_of("[]: /") != std::string::npos) {
    result.port.clear();
  }
  if (!is_port(result.port)) {
    throw InvalidArgument("not an address: '{}'; give host:port, with an IPv6 host in brackets",
                          address);
  }
  return result;
}

std::string Endpoint::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), port());
  }
  if (family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), port());
  }
  return "an unknown address";
}

int Endpoint::port() const {
  if (family() == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

bool Endpoint::is_loopback() const {
  if (family() == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  }
  if (family() != AF_INET) return false;
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
  return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
}

std::vector<Endpoint> resolve(const std::string& address, Use use) {
  const HostPort where = parse_host_port(address);
  int error = 0;
  AddressList found = look_up(where, use, AI_NUMERICHOST, error);
  if (error == EAI_NONAME) {
    const BlockingRegion region([&] { return fmt::format("the name service: {}", address); });
    found = look_up(where, use, 0, error);
  }
  if (error != 0) {
    throw Unavailable("the host of {} is not known here: {}", address, ::gai_strerror(error));
  }
  std::vector<Endpoint> endpoints;
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    Endpoint endpoint;
    endpoint.size = std::min<socklen_t>(entry->ai_addrlen, sizeof(endpoint.storage));
    std::memcpy(&endpoint.storage, entry->ai_addr, endpoint.size);
    endpoints.push_back(endpoint);
  }
  return endpoints;
}

}  // namespace muster::net
