#include "muster/cli/described_flags.h"

#include "muster/cli/repeatable.h"

namespace muster::cli {
namespace {

CLI::Option* add_described(CLI::App& command, const jobs::BackEndFlag& flag) {
  if (flag.is_switch) return command.add_flag(flag.name, flag.description);
  CLI::Option* const option = command.add_option(flag.name, flag.description)->type_name("TEXT");
  if (!flag.default_value.empty()) option->default_str(flag.default_value);
  return flag.is_repeatable ? repeatable(option) : option;
}

}  // namespace

void DescribedFlags::add(CLI::App& command, const std::vector<jobs::BackEndFlag>& flags) {
  for (const jobs::BackEndFlag& flag : flags) options_.push_back(add_described(command, flag));
}

jobs::FlagValues DescribedFlags::values() const {
  jobs::FlagValues values;
  for (const CLI::Option* option : options_) {
    for (const std::string& value : option->results()) values.add(option->get_name(), value);
  }
  return values;
}

}  // namespace muster::cli
