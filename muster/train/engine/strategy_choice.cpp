#include "muster/train/engine/strategy_choice.h"

#include <cctype>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/suggestion.h"
#include "muster/train/engine/strategy.h"

namespace muster {
namespace {

// "ParameterServerStrategy" and "parameter_server" are "parameterserver".
std::string plain_strategy_name(std::string_view name) {
  std::string plain;
  for (const char letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  constexpr std::string_view kSuffix = "strategy";
  if (plain.ends_with(kSuffix)) plain.resize(plain.size() - kSuffix.size());
  return plain;
}

std::string strategy_by_name(std::string_view name) {
  const std::string plain = plain_strategy_name(name);
  if (plain == "auto") return "auto";
  if (plain == "ps" || plain == "parameterserver") return "ps";
  if (plain == "collective" || plain == "multiworkermirrored") return "collective";
  throw InvalidArgument("there is no strategy `{}`, only auto, ps, collective{}", name,
                        did_you_mean(name, {"auto", "ps", "collective"}));
}

}  // namespace

StrategyChoice::StrategyChoice(std::string_view name) : name_(strategy_by_name(name)) {}

std::unique_ptr<Strategy> StrategyChoice::operator()(const RunConfig& config) const {
  if (!make_) throw Internal("strategy `{}` has not been looked up", name_);
  return make_(config);
}

}  // namespace muster
