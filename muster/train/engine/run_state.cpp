#include "muster/train/engine/run_state.h"

#include <nlohmann/json.hpp>

#include "muster/base/base64.h"
#include "muster/base/error.h"

namespace muster {
namespace {

constexpr int kRunStateVersion = 1;

}  // namespace

std::string to_json(const RunState& state) {
  nlohmann::json inputs = nlohmann::json::array();
  for (const auto& input : state.inputs) {
    inputs.push_back(input ? nlohmann::json(base64_encode(*input)) : nlohmann::json(nullptr));
  }
  nlohmann::json json{{"version", kRunStateVersion},
                      {"global_step", state.global_step},
                      {"replicas", state.replicas},
                      {"threads_per_replica", state.threads_per_replica},
                      {"seed", state.seed},
                      {"arithmetic", state.arithmetic},
                      {"compile", state.compile},
                      {"loss_scale", state.loss_scale},
                      {"loss_scale_steps", state.loss_scale_steps},
                      {"inputs", std::move(inputs)}};
  if (state.batches) json["batches"] = *state.batches;
  if (!state.input_obstacle.empty()) json["input_obstacle"] = state.input_obstacle;
  return json.dump(1);
}

RunState parse_run_state(std::string_view text, std::string_view name) {
  try {
    const auto json = nlohmann::json::parse(text);
    const int version = json.at("version").get<int>();
    if (version != kRunStateVersion) {
      throw DataLoss("{} is of version {}; this muster reads {}", name, version, kRunStateVersion);
    }
    RunState state;
    json.at("global_step").get_to(state.global_step);
    json.at("replicas").get_to(state.replicas);
    json.at("threads_per_replica").get_to(state.threads_per_replica);
    json.at("seed").get_to(state.seed);
    json.at("arithmetic").get_to(state.arithmetic);
    if (const auto compile = json.find("compile"); compile != json.end()) {
      compile->get_to(state.compile);
    }
    json.at("loss_scale").get_to(state.loss_scale);
    json.at("loss_scale_steps").get_to(state.loss_scale_steps);
    if (const auto batches = json.find("batches"); batches != json.end()) {
      state.batches = batches->get<std::int64_t>();
    }
    for (const auto& input : json.at("inputs")) {
      state.inputs.push_back(
          input.is_null() ? std::nullopt : std::optional(base64_decode(input.get<std::string>())));
    }
    if (state.replicas < 1 || state.inputs.size() != static_cast<std::size_t>(state.replicas)) {
      throw DataLoss("{} names {} replicas and {} inputs", name, state.replicas,
                     state.inputs.size());
    }
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw DataLoss("{} is damaged: {}", name, error.what());
  } catch (const InvalidArgument& error) {
    throw DataLoss("{} is damaged: {}", name, error.what());
  }
}

}  // namespace muster
