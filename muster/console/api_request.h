#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/serving/http/http_message.h"

namespace muster::console {

/// A request of a page: its path, decoded and in parts, and its query.
struct ApiRequest {
  std::string method{};
  /// "/api/jobs/census/cancel" is {"api", "jobs", "census", "cancel"}.
  std::vector<std::string> path{};
  std::vector<std::pair<std::string, std::string>> query{};
  std::string body{};

  /// Throws InvalidArgument for a target that cannot be decoded.
  static ApiRequest parse(serving::HttpRequest request);

  /// All values of that name, in their order.
  std::vector<std::string> all(std::string_view name) const;
  /// The first; nothing where it is not given.
  std::optional<std::string> first(std::string_view name) const;
  /// A whole number from `least` to `most`. Throws InvalidArgument, naming it.
  std::size_t number(std::string_view name, std::size_t otherwise, std::size_t least,
                     std::size_t most) const;
};

}  // namespace muster::console
