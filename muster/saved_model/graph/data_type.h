#pragma once

#include "muster/data/checkpoint/data_type.h"

/// TensorFlow's graphs as plain structs, their files, and what checks them. Nothing here needs
/// libtorch.
namespace muster::graph {

/// Graphs and checkpoints have the same types.
using muster::data_type_from;
using muster::data_type_named;
using muster::data_type_of;
using muster::DataType;
using muster::element_bytes;
using muster::is_ref;
using muster::name_of;
using muster::with_ref;
using muster::without_ref;

}  // namespace muster::graph
