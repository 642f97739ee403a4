#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "muster/data/features/batch.h"
#include "muster/data/records/parse_spec.h"
#include "muster/data/records/record.h"

namespace muster {

/// Returns a function for Dataset::batch() that parses records of tf.Examples into a batch. The
/// features that `label_names` names, as far as `specs` has them, become its labels. Throws
/// InvalidArgument for specs that an ExampleDecoder refuses; the function throws what parsing
/// throws, and may be called from several threads.
std::function<Batch(std::span<const Record>)> parse_examples(
    FeatureSpecs specs, std::vector<std::string> label_names = {kLabel});

}  // namespace muster
