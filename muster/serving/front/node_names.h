#pragma once

#include <string>
#include <vector>

#include "muster/serving/front/node.h"

namespace muster::serving {

/// The endpoints of HOST:PORT: one for an address, one for each address of a name (of IPv4 where
/// there are any, since the others belong to the same servers). Blocks as long as the
/// system's resolver does. Throws InvalidArgument for another form, Unavailable for a name that is
/// not found.
std::vector<NodeAddress> node_addresses(const std::string& text);

/// Checks the form of such a text. Throws InvalidArgument.
void check_node_name(const std::string& text);

}  // namespace muster::serving
