#include "muster/serving/front/node_names.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

// Host and port.
std::pair<std::string, std::string> split_node_name(const std::string& text) {
  const auto colon = text.rfind(':');
  const std::string_view port =
      colon == text.npos ? std::string_view() : std::string_view(text).substr(colon + 1);
  std::uint16_t number = 0;
  const auto read = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool is_port =
      read.ec == std::errc() && read.ptr == port.data() + port.size() && number > 0;
  if (!is_port || colon == 0) throw InvalidArgument("a node must be HOST:PORT: {}", text);
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return {std::move(host), std::string(port)};
}

NodeAddress node_address(const addrinfo& found, const std::string& port) {
  std::array<char, NI_MAXHOST> host{};
  const int error = ::getnameinfo(found.ai_addr, found.ai_addrlen, host.data(), host.size(),
                                  nullptr, 0, NI_NUMERICHOST);
  if (error != 0) throw Unavailable("an address of a node: {}", ::gai_strerror(error));
  NodeAddress out{
      .text = fmt::format(fmt::runtime(found.ai_family == AF_INET6 ? "[{}]:{}" : "{}:{}"),
                          host.data(), port),
      .length = found.ai_addrlen};
  std::memcpy(&out.address, found.ai_addr, found.ai_addrlen);
  return out;
}

}  // namespace

void check_node_name(const std::string& text) { split_node_name(text); }

std::vector<NodeAddress> node_addresses(const std::string& text) {
  const auto [host, port] = split_node_name(text);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) throw Unavailable("{}: {}", text, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::vector<NodeAddress> of_ipv4;
  std::vector<NodeAddress> others;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    (one->ai_family == AF_INET ? of_ipv4 : others).push_back(node_address(*one, port));
  }
  return of_ipv4.empty() ? others : of_ipv4;
}

}  // namespace muster::serving
