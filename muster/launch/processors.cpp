#include "muster/launch/processors.h"

#include <sched.h>

#include <cerrno>

#include "muster/base/error.h"

namespace muster::launch {

Binding parse_binding(std::string_view text) {
  if (text == "auto") return Binding::kAuto;
  if (text == "none") return Binding::kNone;
  if (text == "processor") return Binding::kProcessor;
  throw InvalidArgument("tasks are bound auto, none or processor: {}", text);
}

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) {
    throw_errno(errno, "asking for the processors of this process");
  }
  std::vector<int> allowed;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(static_cast<std::size_t>(processor), &set)) allowed.push_back(processor);
  }
  return allowed;
}

std::vector<int> processors_for(Binding binding, std::size_t tasks,
                                const std::vector<int>& allowed) {
  constexpr std::size_t kLeastTasks = 8;
  const bool pays = tasks >= kLeastTasks && tasks <= allowed.size() && 2 * tasks > allowed.size();
  if (binding == Binding::kNone || (binding == Binding::kAuto && !pays)) return {};
  std::vector<int> processors;
  for (std::size_t task = 0; task < tasks; ++task) {
    processors.push_back(allowed[task % allowed.size()]);
  }
  return processors;
}

}  // namespace muster::launch
