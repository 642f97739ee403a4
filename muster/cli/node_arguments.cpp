#include "muster/cli/node_arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "muster/base/host_memory.h"
#include "muster/base/thread_pool.h"

namespace muster::cli {
namespace {

// Flags that the front keeps or replaces; nodes get all others.
constexpr std::string_view kFrontFlags[] = {
    "--address",
    "--port",
    "--rest-api-port",
    "--grpc-socket-path",
    "--ssl-config-file",
    "--rest-api-max-connections",
    "--nodes",
    "--min-nodes",
    "--max-nodes",
    "--node-queue-time-ms",
    "--node-cool-down-secs",
    "--node-probe-timeout-secs",
    "--node-hang-timeout-secs",
    "--node-start-timeout-secs",
    "--max-server-live-bytes",
};
// The same without a value of their own.
constexpr std::string_view kFrontSwitches[] = {"--log-requests"};

std::string with_dashes(std::string_view flag) {
  std::string out(flag.substr(0, flag.find('=')));
  std::ranges::replace(out, '_', '-');
  return out;
}

std::size_t share_of(std::size_t all, std::size_t nodes) {
  return std::max<std::size_t>(1, (all + nodes - 1) / nodes);
}

}  // namespace

std::vector<std::string> node_arguments(const std::vector<std::string>& words,
                                        const ServeFlags& flags, std::size_t nodes, int number) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string flag = word.starts_with("--") ? with_dashes(word) : std::string();
    if (std::ranges::find(kFrontSwitches, flag) != std::end(kFrontSwitches)) continue;
    if (std::ranges::find(kFrontFlags, flag) == std::end(kFrontFlags)) {
      out.push_back(word);
    } else if (word.find('=') == word.npos) {
      ++i;  // Its value is the next word.
    }
  }
  // Where all nodes are at work, all together do as much at a time as one server would.
  if (flags.num_batch_threads == 0 && flags.batching_parameters_file.empty()) {
    out.emplace_back("--num-batch-threads");
    out.push_back(std::to_string(slots_of_node(flags, nodes)));
  }
  const std::int64_t live =
      flags.max_server_live_bytes.value_or(static_cast<std::int64_t>(memory_of_process() / 2));
  out.emplace_back("--max-server-live-bytes");
  out.push_back(std::to_string(live / static_cast<std::int64_t>(nodes)));
  for (const char* word :
       {"--address", "127.0.0.1", "--rest-api-port", "auto", "--port", "0", "--node-number"}) {
    out.emplace_back(word);
  }
  out.push_back(std::to_string(number));
  return out;
}

std::size_t slots_of_node(const ServeFlags& flags, std::size_t nodes) {
  if (flags.num_batch_threads > 0) return flags.num_batch_threads;
  return share_of(ThreadPool::available_processors(), nodes);
}

std::vector<std::string> node_environment(std::size_t nodes) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return {};
  return {fmt::format("OMP_NUM_THREADS={}", share_of(ThreadPool::available_processors(), nodes))};
}

}  // namespace muster::cli
