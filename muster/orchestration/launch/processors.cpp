#include "muster/orchestration/launch/processors.h"

#include <algorithm>

#include "muster/base/error.h"

namespace muster::launch {

Binding parse_binding(std::string_view text) {
  if (text == "auto") return Binding::kAuto;
  if (text == "none") return Binding::kNone;
  if (text == "processor") return Binding::kProcessor;
  throw InvalidArgument("tasks are bound auto, none or processor: {}", text);
}

std::vector<int> processors_for(Binding binding, std::size_t tasks,
                                const std::vector<int>& allowed) {
  constexpr std::size_t kLeastTasks = 8;
  const bool pays = tasks >= kLeastTasks && !allowed.empty() && 2 * tasks > allowed.size();
  if (binding == Binding::kNone || (binding == Binding::kAuto && !pays)) return {};
  if (allowed.empty()) {
    throw FailedPrecondition("tasks cannot be bound: the system does not tell its processors");
  }
  std::vector<int> processors;
  // Neighbours are on one processor where tasks share them: they exchange gradients first.
  const std::size_t used = std::min(tasks, allowed.size());
  for (std::size_t i = 0; i < used; ++i) {
    const std::size_t sharing = tasks / used + (i < tasks % used ? 1 : 0);
    processors.insert(processors.end(), sharing, allowed[i]);
  }
  return processors;
}

}  // namespace muster::launch
