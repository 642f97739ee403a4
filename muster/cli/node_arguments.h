#pragma once

#include <string>
#include <vector>

#include "muster/cli/serve_flags.h"

namespace muster::cli {

/// The command line of a node of a front that was started with `words`, the program not included:
/// the same models and limits, a port of its own on loopback, its share of memory and processors.
/// `nodes` are there at most.
std::vector<std::string> node_arguments(const std::vector<std::string>& words,
                                        const ServeFlags& flags, std::size_t nodes, int number);

/// Requests that a node computes at one time.
std::size_t slots_of_node(const ServeFlags& flags, std::size_t nodes);

/// Variables that are added to its environment, as NAME=value.
std::vector<std::string> node_environment(std::size_t nodes);

}  // namespace muster::cli
