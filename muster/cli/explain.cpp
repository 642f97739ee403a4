#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/cli/command.h"
#include "muster/cli/explain_flags.h"
#include "muster/cli/saved_model_argument.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/serving/batch/prediction_step.h"
#include "muster/serving/codec/explain_request.h"
#include "muster/serving/codec/signature_choice.h"
#include "muster/serving/executable/explain_rows.h"

namespace muster::cli {
namespace {

// The name that the request has, if it has one.
std::string explained_signature(const std::string& body) {
  return nlohmann::json::parse(body).value("signature_name", "");
}

std::string explained_locally(const ExplainFlags& flags) {
  const std::string body = explain_request(flags);
  const auto request = serving::ExplainRequest::from_json(body);
  const Path dir =
      serving::in_step(serving::kLoadStep, [&] { return find_saved_model(flags.of.model_dir); });
  graph::SavedModel saved =
      serving::in_step(serving::kLoadStep, [&] { return graph::read_saved_model(dir); });
  const std::vector<std::string> tags = tags_of(flags.of.tag_set);
  const graph::MetaGraph& meta = graph::find_meta_graph(saved, tags);
  const std::string name = serving::in_step(serving::kInputsStep, [&] {
    return serving::choose_signature(meta, explained_signature(body));
  });
  const graph::SignatureDef& signature = graph::find_signature(meta, name);
  const auto inputs =
      serving::in_step(serving::kInputsStep, [&] { return request.inputs(signature); });
  const auto baseline =
      serving::in_step(serving::kInputsStep, [&] { return request.baseline(signature); });
  const auto model = serving::in_step(serving::kLoadStep, [&] {
    return executor::ExecutableModel::from(
        meta, dir,
        {.tags = tags, .signatures = {name}, .explain = true, .limits = flags.of.limits});
  });
  return serving::in_step(serving::kRunStep, [&] {
    return serving::explain_answer(
        serving::explain_rows(model, name, inputs, request.options(), baseline));
  });
}

}  // namespace

void add_explain_instances(CLI::App& command) {
  const auto flags = std::make_shared<ExplainFlags>();
  add_explain_flags(command, *flags);
  command.callback([flags] { print_explanations(explained_locally(*flags), flags->as_json); });
}

}  // namespace muster::cli
