#include "muster/cli/serve_nodes.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/program.h"
#include "muster/cli/node_arguments.h"
#include "muster/cli/node_program.h"
#include "muster/cli/serve_setup.h"
#include "muster/cli/torch_program.h"
#include "muster/serving/core/config_files.h"
#include "muster/serving/front/front_server.h"
#include "muster/serving/front/node_keeper.h"
#include "muster/serving/front/node_names.h"
#include "muster/serving/front/remote_nodes.h"
#include "muster/serving/listener/listening_socket.h"

namespace muster::cli {
namespace {

using serving::FrontOptions;

constexpr const char* kDefaultGrpcPort = "8500";

serving::TlsOptions tls_of(const ServeFlags& flags) {
  if (flags.ssl_config_file.empty()) return {};
  return from_config_file("--ssl-config-file", flags.ssl_config_file, serving::parse_ssl_config);
}

// Also whether it is free, before models are loaded, which may take long.
std::uint16_t rest_port_of(const ServeFlags& flags) {
  if (port_of("--port", flags.port) && flags.port != kDefaultGrpcPort) {
    throw UsageError("--port {}: with --nodes the server speaks REST alone; leave it out",
                     flags.port);
  }
  if (!flags.grpc_socket_path.empty()) {
    throw UsageError("--grpc-socket-path: with --nodes the server speaks REST alone");
  }
  const auto port = port_of("--rest-api-port", flags.rest_api_port);
  if (!port) throw UsageError("--rest-api-port is 0: with --nodes the server speaks REST alone");
  try {
    serving::check_port(flags.address, *port);
  } catch (Error& error) {
    error.add_context("--rest-api-port");
    throw;
  }
  return *port;
}

FrontOptions front_options(const ServeFlags& flags, std::uint16_t port) {
  FrontOptions options;
  options.http.address = flags.address;
  options.http.port = port;
  options.http.tls = tls_of(flags);
  options.http.max_body_bytes = flags.rest_api_max_body_bytes;
  options.http.body_budget =
      std::make_shared<serving::ByteBudget>(flags.rest_api_max_total_body_bytes);
  options.http.max_connections = flags.rest_api_max_connections;
  options.http.log_requests = flags.log_requests;
  options.timeout = std::chrono::milliseconds(flags.rest_api_timeout_in_ms);
  options.access = access_of(flags);
  if (!flags.monitoring_config_file.empty()) {
    options.prometheus_path = from_config_file(
        "--monitoring-config-file", flags.monitoring_config_file, serving::parse_monitoring_config);
  }
  return options;
}

std::vector<std::string> words_after_program() {
  std::vector<std::string> words = command_line();
  if (!words.empty()) words.erase(words.begin());
  return words;
}

std::size_t most_nodes(const ServeFlags& flags) { return std::max(flags.nodes, flags.max_nodes); }

NodeProgram::Options program_options(const ServeFlags& flags) {
  return {.program = torch_program("serve"),
          .arguments =
              [&flags, words = words_after_program()](int number) {
                return node_arguments(words, flags, most_nodes(flags), number);
              },
          .environment = node_environment(most_nodes(flags))};
}

// Where their number follows the load, one node starts at least: mistakes are to be reported at the
// start.
serving::NodeKeeperOptions keeper_options(const ServeFlags& flags) {
  std::optional<serving::ScalingOptions> scaling;
  if (flags.max_nodes > 0) {
    scaling = {
        .min_nodes = flags.min_nodes,
        .max_nodes = flags.max_nodes,
        .slots_per_node = slots_of_node(flags, flags.max_nodes),
        .queue_time = std::chrono::microseconds(std::llround(flags.node_queue_time_ms * 1000)),
        .cool_down = to_time(flags.node_cool_down_secs)};
  }
  return {.nodes = scaling ? std::max<std::size_t>(1, flags.min_nodes) : flags.nodes,
          .scaling = scaling,
          .probe_timeout = to_time(flags.node_probe_timeout_secs),
          .hang_timeout = to_time(flags.node_hang_timeout_secs),
          .start_timeout = to_time(flags.node_start_timeout_secs)};
}

serving::RemoteNodesOptions remote_options(const ServeFlags& flags) {
  const bool has_models = !flags.folder.empty() || !flags.model_base_path.empty() ||
                          !flags.model_config_file.empty() || !flags.models_dir.empty();
  if (has_models) {
    throw UsageError("--node-addresses: the models are those of the nodes; leave the folder out");
  }
  for (const std::string& name : flags.node_addresses) {
    try {
      serving::check_node_name(name);
    } catch (const InvalidArgument& error) {
      throw UsageError("--node-addresses: {}", error.message());
    }
  }
  return {.names = flags.node_addresses,
          .probe_timeout = to_time(flags.node_probe_timeout_secs),
          .start_timeout = to_time(flags.node_start_timeout_secs)};
}

/// The server of one address and several nodes.
class ServingNodes {
 public:
  explicit ServingNodes(const ServeFlags& flags)
      : flags_(flags), options_(front_options(flags, rest_port_of(flags))) {
    options_.metrics = [this](const std::string& path) { return nodes_->metrics(path); };
    options_.nodes = [this](auto since) { return nodes_->history().page(since); };
    if (flags.node_addresses.empty()) {
      const serving::NodeKeeperOptions keeper = keeper_options(flags);
      program_.emplace(program_options(flags));
      front_.emplace(options_);
      nodes_ = std::make_unique<serving::NodeKeeper>(keeper, *program_, *front_);
    } else {
      const serving::RemoteNodesOptions remote = remote_options(flags);
      front_.emplace(options_);
      nodes_ = std::make_unique<serving::RemoteNodes>(remote, *front_);
    }
    nodes_->start();
    front_->open();
    log::info("Exporting HTTP/REST API at:{}:{} ...",
              flags.address.empty() ? "0.0.0.0" : flags.address, front_->port());
  }

  void run() {
    SignalPipe signals;
    for (char what = 0; what != 's';) {
      what = signals.wait(std::chrono::milliseconds(-1));
      if (what == 'h') reload();
    }
    drain();
  }

 private:
  // Files of models are the nodes' to read.
  void reload() {
    nodes_->send(SIGHUP);
    if (flags_.ssl_config_file.empty()) return;
    try {
      front_->set_certificates(tls_of(flags_));
      log::info("read {} again: new connections have its certificates", flags_.ssl_config_file);
    } catch (const Error& error) {
      log::error("the certificates stay: {}", error.what());
    }
  }

  void drain() {
    log::info("stopping: no more connections; requests in flight are answered");
    if (!front_->drain(Deadline::after(to_time(flags_.exit_timeout_secs)))) {
      log::warning("requests were not answered within --exit-timeout-secs {}",
                   flags_.exit_timeout_secs);
    }
    nodes_->stop(Deadline::after(to_time(flags_.exit_timeout_secs)));
    log::info("stopped");
  }

  const ServeFlags& flags_;
  FrontOptions options_;
  std::optional<NodeProgram> program_{};
  // The nodes use the front, and end first.
  std::optional<serving::FrontServer> front_{};
  std::unique_ptr<serving::Nodes> nodes_{};
};

}  // namespace

void serve_with_nodes(const ServeFlags& flags) {
  log::set_task("serve");
  for (const std::string& name : flags.ignored) {
    log::warning("--{} has no effect here: it is a setting of TensorFlow's own", name);
  }
  allow_descriptors(flags.rest_api_max_connections);
  ServingNodes(flags).run();
}

}  // namespace muster::cli
