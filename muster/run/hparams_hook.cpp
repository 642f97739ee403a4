#include "muster/run/hparams_hook.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "muster/data/summary/event_writer.h"

namespace muster {
namespace {

// A number or a truth value on the command line is one in the table, too, which sorts by it.
HParam hparam_of(const std::string& name, const std::string& text) {
  if (text == "true" || text == "false") return {name, text == "true"};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return {name, number};
  return {name, text};
}

std::vector<HParam> hparams_of(const EstimatorOptions& options, const Session& session,
                               std::optional<std::int64_t> max_steps) {
  std::vector<HParam> hparams;
  const auto add = [&](std::string name, std::optional<double> value) {
    if (value) hparams.push_back({std::move(name), *value});
  };
  const auto rates = session.learning_rates();
  for (const auto& [prefix, rate] : rates) {
    const bool is_alone = rates.size() == 1 || prefix.empty();
    add(is_alone ? "learning_rate" : "learning_rate/" + prefix, rate);
  }
  add("max_steps", max_steps);
  add("seed", static_cast<double>(session.config().seed()));
  if (options.weight_decay.factor > 0) add("weight_decay", options.weight_decay.factor);
  add("clip_value", options.clip.value);
  add("clip_norm", options.clip.norm);
  add("clip_global_norm", options.clip.global_norm);
  for (const auto& [name, text] : session.config().hparams) {
    // The estimator's own values take precedence.
    const bool is_known = std::ranges::find(hparams, name, &HParam::name) != hparams.end();
    if (!is_known) hparams.push_back(hparam_of(name, text));
  }
  return hparams;
}

}  // namespace

void HParamsHook::begin(Session& session) {
  if (!session.config().is_chief()) return;
  std::vector<HParamMetric> columns{{.tag = "loss"}};
  columns.insert(columns.end(), metrics_.begin(), metrics_.end());
  session.events().add_hparams(hparams_of(estimator_.options(), session, max_steps_), columns);
}

void HParamsHook::end(Session& session) {
  if (session.config().is_chief()) session.events().add_hparams_end(/*success=*/true);
}

}  // namespace muster
