#include <algorithm>
#include <array>
#include <cstdlib>

#include "muster/base/error.h"
#include "muster/nn/kernels/libtorch_kernels.h"
#include "muster/nn/kernels/tiles_internal.h"

namespace muster::kernels {
namespace {

/// Loops with which residual units were measured to train faster than libtorch's layers, in either
/// order in memory (docs/decisions/0097-residual-units-on-x86-64.md). With the loops that every
/// processor has, oneDNN, which looks at the processor itself, is ahead.
constexpr std::array<std::string_view, 1> kMeasuredLoops{"avx2"};

thread_local bool ours_on_thread = false;

// MUSTER_CPU_RESIDUAL_UNITS=on takes them with other loops too, to measure these.
std::string_view chosen_loops() {
  const std::string_view name = tiles().name;
  const char* const told = std::getenv("MUSTER_CPU_RESIDUAL_UNITS");
  if (told != nullptr && std::string_view(told) != "on") {
    throw InvalidArgument("MUSTER_CPU_RESIDUAL_UNITS may be `on`, to measure, or unset: `{}`",
                          told);
  }
  const bool measured =
      std::find(kMeasuredLoops.begin(), kMeasuredLoops.end(), name) != kMeasuredLoops.end();
  return measured || told != nullptr ? name : std::string_view();
}

}  // namespace

bool has_libtorch_kernels() { return false; }
bool uses_libtorch_kernels() { return false; }

// Nothing is replaced in libtorch, so scopes of other threads need not be asked.
KernelScope::KernelScope(bool ours) : before_(ours_on_thread) { ours_on_thread = ours; }
KernelScope::~KernelScope() { ours_on_thread = before_; }

UnitOrder residual_unit_order() {
  const bool ours = ours_on_thread && !residual_unit_loops().empty();
  return ours ? UnitOrder::kChannelsLast : UnitOrder::kNone;
}

std::string_view residual_unit_loops() {
  static const std::string_view chosen = chosen_loops();
  return chosen;
}

}  // namespace muster::kernels
