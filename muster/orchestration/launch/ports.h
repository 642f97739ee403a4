#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

/// Different ports on which no process listened when they were chosen, and which no other
/// ReservedPorts of this host has as long as this lives: two launches never choose the same, and a
/// task that is started again finds its own. A program that does not ask here may still take one.
class ReservedPorts {
 public:
  /// So many from the range, lowest first, or any below those that the system gives to connections.
  /// Each is bound for a moment, all of them at a time. Throws ResourceExhausted when the range has
  /// too few.
  ReservedPorts(std::size_t count, const std::optional<PortRange>& range);

  const std::vector<std::uint16_t>& numbers() const { return numbers_; }
  std::uint16_t operator[](std::size_t i) const { return numbers_[i]; }

 private:
  class Reservations;
  std::vector<std::uint16_t> numbers_;
  std::shared_ptr<Reservations> reservations_;
};

}  // namespace muster::launch
