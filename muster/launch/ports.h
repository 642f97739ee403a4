#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace muster::launch {

/// From `first` to `last`, both among them.
struct PortRange {
  std::uint16_t first = 1;
  std::uint16_t last = 65535;
};

/// "27182-27190", or one port alone. Throws InvalidArgument.
PortRange parse_port_range(std::string_view text);

/// So many different ports on which nobody listens now, from the range, lowest first, or any below
/// those that the system gives to connections. Each was bound to see, all of them at a time.
/// Another process may still take one before it is used. Throws ResourceExhausted when the range
/// has too few.
std::vector<std::uint16_t> free_ports(std::size_t count, const std::optional<PortRange>& range);

}  // namespace muster::launch
