#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// The host names of a Slurm node list, in its order: "gpu[01-03,7],login" is gpu01, gpu02, gpu03,
/// gpu7, login. Throws InvalidArgument, showing the list, for one that is malformed or names more
/// than `most` hosts.
std::vector<std::string> expand_slurm_node_list(std::string_view list,
                                                std::size_t most = std::size_t{1} << 16);

/// Slurm's tasks per node: "2(x3),1" is 2, 2, 2, 1. Throws InvalidArgument like the above.
std::vector<std::size_t> expand_slurm_counts(std::string_view counts,
                                             std::size_t most = std::size_t{1} << 16);

}  // namespace muster
