#include "muster/launch/processors.h"

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
  const bool pays = tasks >= kLeastTasks && tasks <= allowed.size() && 2 * tasks > allowed.size();
  if (binding == Binding::kNone || (binding == Binding::kAuto && !pays)) return {};
  if (allowed.empty()) {
    throw FailedPrecondition("tasks cannot be bound: the system does not tell its processors");
  }
  std::vector<int> processors;
  for (std::size_t task = 0; task < tasks; ++task) {
    processors.push_back(allowed[task % allowed.size()]);
  }
  return processors;
}

}  // namespace muster::launch
