#pragma once

#include <string>

#include "muster/saved_model/executor/value.h"

namespace muster {
class BundleReader;
}

namespace muster::executor {

/// A tensor of a bundle, strings among them. Throws NotFound, naming it.
Value read_value(const BundleReader& bundle, const std::string& name);

}  // namespace muster::executor
