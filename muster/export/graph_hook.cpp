#include "muster/export/graph_hook.h"

#include <string>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/summary/event_writer.h"
#include "muster/export/inference_graph.h"
#include "muster/saved_model/graph/default_attrs.h"
#include "muster/saved_model/graph/join.h"

namespace muster {
namespace {

// All but the first line of libtorch's messages tell where in libtorch.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string held_graph(const Path& model_dir) {
  const Path path = graph::inference_graph_path(model_dir);
  return file_exists(path) ? read_file(path) : std::string();
}

}  // namespace

void GraphHook::write(Session& session) const {
  const Path& model_dir = session.config().model_dir;
  const InferenceGraph graph = inference_graph(estimator_, make_input_());
  const std::string before = held_graph(model_dir);
  write_inference_graph(graph, model_dir);
  // TensorBoard warns of a second graph, also of an equal one.
  if (held_graph(model_dir) == before && session.global_step() > 0) return;
  graph::GraphDef shown = graph.meta.graph;
  graph::add_default_attrs(shown);
  session.events().add_graph(graph::encode_graph(shown), session.global_step());
}

void GraphHook::begin(Session& session) {
  if (!session.config().is_chief()) return;
  try {
    write(session);
  } catch (const std::exception&) {
    const auto why = first_line(describe(std::current_exception()).message);
    log::warning("no graph of the model is written: {}", why);
    // One of an earlier run may be of another model.
    const Path& model_dir = session.config().model_dir;
    file_system_for(model_dir).remove(graph::inference_graph_path(model_dir));
  }
}

}  // namespace muster
