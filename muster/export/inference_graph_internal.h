#pragma once

#include <vector>

#include "muster/export/inference_graph.h"
#include "muster/export/translate.h"

namespace muster {

class Head;
class Model;

namespace exporting {

/// A model's graph and the variables behind it, which hold the values of now.
struct BuiltGraph {
  InferenceGraph inference{};
  std::vector<GraphVariable> variables{};
};

/// Traces and translates the model for all ways in. Throws what trace() and translate() throw.
BuiltGraph build_graph(Model& model, const Head* head, const ServingInput& input);

}  // namespace exporting
}  // namespace muster
