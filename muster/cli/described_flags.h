#pragma once

#include <CLI/App.hpp>
#include <vector>

#include "muster/orchestration/jobs/back_end.h"

namespace muster::cli {

/// Flags that a list describes, in a command.
class DescribedFlags {
 public:
  void add(CLI::App& command, const std::vector<jobs::BackEndFlag>& flags);
  /// Those that were typed.
  jobs::FlagValues values() const;

 private:
  std::vector<const CLI::Option*> options_;
};

}  // namespace muster::cli
