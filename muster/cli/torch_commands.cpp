// The commands of muster-torch as `muster` knows them: their flags, and that they go on there. What
// is misspelt is found before libtorch is loaded.
#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/explain_flags.h"
#include "muster/cli/http_call.h"
#include "muster/cli/model.h"
#include "muster/cli/model_run_flags.h"
#include "muster/cli/predict_flags.h"
#include "muster/cli/remote_predict.h"
#include "muster/cli/serve_flags.h"
#include "muster/cli/serve_nodes.h"
#include "muster/cli/torch_program.h"

namespace muster::cli {

void add_predict(CLI::App& command) {
  const auto flags = std::make_shared<PredictFlags>();
  add_predict_flags(command, *flags);
  command.callback([flags] {
    if (!flags->model.empty()) return predict_remotely(*flags);
    continue_in_torch_program("predict");
  });
}

void add_local_predict(CLI::App& command) {
  const auto flags = std::make_shared<PredictFlags>();
  add_predict_flags(command, *flags);
  command.callback([flags] {
    if (!flags->model.empty()) return predict_remotely(*flags);
    continue_in_torch_program("predict", /*without=*/"local");
  });
}

void add_explain_instances(CLI::App& command) {
  const auto flags = std::make_shared<ExplainFlags>();
  add_explain_flags(command, *flags);
  command.callback([flags] {
    if (flags->of.model.empty()) continue_in_torch_program("explain");
    std::string path = "/v1/models/" + path_part(flags->of.model);
    if (!flags->of.version.empty()) {
      const bool is_number = flags->of.version.find_first_not_of("0123456789") == std::string::npos;
      path += (is_number ? "/versions/" : "/labels/") + path_part(flags->of.version);
    }
    const HttpReply reply =
        http_call(flags->of.server, "POST", path + ":explain", explain_request(*flags));
    if (reply.status != 200) {
      throw FailedPrecondition("{} answers {}: {}", flags->of.server, reply.status, reply.body);
    }
    print_explanations(reply.body, flags->as_json);
  });
}

void add_serve(CLI::App& command) {
  const auto flags = std::make_shared<ServeFlags>();
  add_serve_flags(command, *flags);
  command.callback([flags] {
    if (flags->nodes > 0 || flags->max_nodes > 0 || !flags->node_addresses.empty()) {
      return serve_with_nodes(*flags);
    }
    continue_in_torch_program("serve");
  });
}

void add_model_run(CLI::App& command) {
  const auto flags = std::make_shared<ModelRunFlags>();
  add_model_run_flags(command, *flags);
  command.callback([flags] { continue_in_torch_program("model run"); });
}

}  // namespace muster::cli
