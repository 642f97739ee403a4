#pragma once

#include <string>

#include "muster/data/checkpoint/bundle_reader.h"

namespace muster {

/// SHA-256 over the names, types, shapes and values of all tensors, in the order of their names, as
/// 64 hexadecimal letters. It depends on nothing else: not on shards, partitions or the order in
/// the files. docs/formats/checkpoint.md gives the bytes that are hashed.
std::string checkpoint_hash(const BundleReader& bundle);

}  // namespace muster
