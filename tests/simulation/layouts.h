// The clusters that are simulated.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/testing/simulation/world.h"

namespace muster::simulation {

struct Layout {
  std::string name;
  int workers = 2;
  int servers = 0;
  std::vector<std::string> flags{};
  std::vector<std::pair<std::string, std::string>> environment{};
  /// Whether the weights are those of one process, whichever tasks were lost.
  bool exact = true;
  /// Whether the run ends at its last step exactly, not soon after it.
  bool ends_at_steps = true;
  /// Whether all tasks have one folder, which lies on none of their hosts.
  bool shares_folder = false;
  /// Tasks start within this time.
  Time start_within = 20 * kMillisecond;

  std::vector<std::string> tasks() const;
};

const std::vector<Layout>& layouts();
/// Throws UsageError, naming those that there are.
const Layout& layout_named(std::string_view name);

}  // namespace muster::simulation
