#include "muster/console/run_summary.h"

#include <nlohmann/json.hpp>

namespace muster::console {

using nlohmann::json;

std::string listed_fields(const std::string& record) {
  const json from = json::parse(record, nullptr, /*allow_exceptions=*/false);
  if (!from.is_object()) return {};
  json out = json::object();
  for (const char* key :
       {"began_ns", "ended", "ended_ns", "global_step", "hparams", "metrics", "seed"}) {
    if (from.contains(key)) out[key] = from[key];
  }
  if (const auto git = from.find("git"); git != from.end() && git->is_object()) {
    out["commit"] = git->value("commit", json());
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace muster::console
