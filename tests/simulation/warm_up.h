#pragma once

namespace muster::simulation {

/// Has this process load and prepare what every task would, before they are forked from it.
void warm_up();

}  // namespace muster::simulation
