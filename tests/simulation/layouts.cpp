#include "tests/simulation/layouts.h"

#include <fmt/core.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster::simulation {

std::vector<std::string> Layout::tasks() const {
  std::vector<std::string> names{"chief-0"};
  for (int i = 0; i < workers; ++i) names.push_back(fmt::format("worker-{}", i));
  for (int i = 0; i < servers; ++i) names.push_back(fmt::format("ps-{}", i));
  return names;
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{
      {.name = "alone", .workers = 0},
      {.name = "collective"},
      {.name = "ps", .servers = 2},
      {.name = "ps-log", .servers = 2, .flags = {"--ps-log"}},
      {.name = "async",
       .servers = 2,
       .flags = {"--sync=false"},
       .exact = false,
       .ends_at_steps = false},
      {.name = "backup", .servers = 2, .flags = {"--backup-replicas", "1"}, .exact = false},
      // Exchanges in stages, with one task that is left over.
      {.name = "collective-5", .workers = 4},
      // Begins with two, and others join.
      {.name = "elastic",
       .workers = 3,
       .environment = {{"MUSTER_MIN_WORKERS", "1"}},
       .start_within = 400 * kMillisecond},
      // Servers write their parts of checkpoints.
      {.name = "ps-parts", .servers = 2, .flags = {"--part-bytes", "1024"}, .shares_folder = true},
  };
  return all;
}

const Layout& layout_named(std::string_view name) {
  const auto found = std::ranges::find(layouts(), name, &Layout::name);
  if (found != layouts().end()) return *found;
  std::string names;
  for (const Layout& layout : layouts()) names += " " + layout.name;
  throw UsageError("--layout: there is no {}; there are{}", name, names);
}

}  // namespace muster::simulation
