#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/saved_model/graph/freeze.h"
#include "muster/saved_model/onnx/model.h"

namespace muster::onnx {

/// The frozen graph in ONNX's operators (version kOpset). Inputs and outputs have the names of the
/// signature, other values those of the graph's nodes; the first axis of inputs and outputs is
/// "batch" where its size is open. Images, which TensorFlow has as [batch, height, width,
/// channels], go through convolutions channels first, with transposes only where the graph shows
/// the order.
///
/// Throws Unimplemented for an operation that has no conversion, naming it and its node, and
/// InvalidArgument for an output without a known rank. An input of any rank gets two axes where it
/// is multiplied by a matrix, four where it is an image, else one.
Model convert(const graph::FrozenGraph& frozen);

/// The operations of TensorFlow that convert() knows, each with the operators it becomes.
std::vector<std::pair<std::string, std::string>> converted_operations();

}  // namespace muster::onnx
