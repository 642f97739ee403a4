#include "muster/serving/protocols/protocol_internal.h"

namespace muster::serving {
namespace {

bool takes(const RestRoute& route, std::string_view path) {
  const std::string_view front = path.substr(0, route.prefix.size());
  const bool is_same =
      route.ignores_case ? equal_ignoring_case(front, route.prefix) : front == route.prefix;
  return is_same && (route.prefix.ends_with('/') || path.size() == route.prefix.size() ||
                     path[route.prefix.size()] == '/');
}

}  // namespace

const RestRoute* find_route(const std::vector<Protocol>& protocols, std::string_view path) {
  const RestRoute* found = nullptr;
  for (const Protocol& protocol : protocols) {
    for (const RestRoute& route : protocol.rest) {
      if (found != nullptr && route.prefix.size() <= found->prefix.size()) continue;
      if (takes(route, path)) found = &route;
    }
  }
  return found;
}

}  // namespace muster::serving
