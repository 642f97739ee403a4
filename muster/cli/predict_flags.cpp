#include "muster/cli/predict_flags.h"

#include "muster/cli/command.h"
#include "muster/cli/limit_flags.h"

namespace muster::cli {

void add_instance_flags(CLI::App& command, PredictFlags& flags) {
  auto* const who = command.add_option_group("model", "The model");
  who->add_option("--model-dir,--model_dir", flags.model_dir,
                  "A SavedModel, or a folder of numbered ones, of which the highest is used");
  auto* const model = who->add_option("--model", flags.model, "A model of a server");
  who->require_option(1);
  command.add_option("--version", flags.version, "Of that model (its default)")->needs(model);
  command.add_option("--server", flags.server, "HOST:PORT of the server's REST API")
      ->capture_default_str()
      ->needs(model);
  auto* const input = command.add_option_group("input", "The instances; - is standard input");
  input->add_option("--json-instances,--json_instances", flags.json_instances,
                    "A file with one JSON value per line");
  input->add_option("--text-instances,--text_instances", flags.text_instances,
                    "A file with one string per line");
  input->add_option("--json-request,--json_request", flags.json_request,
                    "A file with a JSON object: {\"instances\": [...]}");
  input->require_option(1);
  command.add_option("--signature-name,--signature_name", flags.signature_name,
                     "The signature to run (the only one, or serving_default)");
  command.add_option("--tag_set,--tag-set,--tag", flags.tag_set,
                     "The tags of the graph, separated by commas (serve); '' is none");
}

void add_predict_flags(CLI::App& command, PredictFlags& flags) {
  add_instance_flags(command, flags);
  command.add_option("--framework", flags.framework, "Ignored; every model is a SavedModel");
  add_json_flag(command, flags.as_json, "One JSON object, {\"predictions\": [...]}");
  add_limit_flags(command, flags.limits);
}

}  // namespace muster::cli
