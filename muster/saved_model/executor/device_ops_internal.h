#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::executor {

/// How an operation behaves on a device whose work is captured: what may be captured with it.
struct DeviceOp {
  std::string_view name;
  /// Bit i: the host reads operand i, a shape or an axis.
  std::uint32_t host_operands = 0;
  bool host_reads_last = false;
  /// A product or convolution: what a capture is for.
  bool is_heavy = false;
  /// Looks at shapes alone, and gives whole numbers that the host reads.
  bool is_shape = false;

  bool is_read_by_host(std::size_t operand, std::size_t operands) const {
    if (host_reads_last && operand + 1 == operands) return true;
    return operand < 32 && (host_operands >> operand & 1U) != 0;
  }
};

/// Nothing for an operation that cannot be captured: one that reads values of other operands on the
/// host, gives shapes that depend on values, draws numbers, or is about strings, tables or lists.
const DeviceOp* find_device_op(std::string_view op);

}  // namespace muster::executor
