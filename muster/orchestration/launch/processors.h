#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace muster::launch {

/// Whether tasks are bound to processors.
enum class Binding {
  /// Where it was seen to pay: see processors_for().
  kAuto,
  kNone,
  kProcessor,
};
/// "auto", "none" or "processor". Throws InvalidArgument.
Binding parse_binding(std::string_view text);

/// The processor of each of so many tasks that train; empty where they are not bound. `allowed` are
/// ThreadPool::allowed_processors(). Where there are more tasks, neighbours share one: they
/// exchange gradients first. Throws FailedPrecondition where they are to be bound and none is
/// known. With kAuto they are where there are not two for each, from eight tasks on: threads of
/// tasks that compute and wait in the same moments are then in each other's way wherever the system
/// moves them.
std::vector<int> processors_for(Binding binding, std::size_t tasks,
                                const std::vector<int>& allowed);

}  // namespace muster::launch
