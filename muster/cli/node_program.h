#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/cli/worker_program.h"
#include "muster/serving/front/node_process.h"

namespace muster::cli {

/// Nodes of this host: forks of muster-torch, which has libtorch loaded. What they log goes to this
/// process's standard error.
class NodeProgram final : public serving::NodeStarter {
 public:
  struct Options {
    Path program{};
    /// The arguments of a node by its number.
    std::function<std::vector<std::string>(int number)> arguments{};
    /// NAME=value.
    std::vector<std::string> environment{};
  };
  /// Begins to load the program.
  explicit NodeProgram(Options options);

  std::unique_ptr<serving::NodeProcess> start(int number) override;

 private:
  const Options options_;
  WorkerProgram program_;
};

}  // namespace muster::cli
