#include "muster/base/flags/arguments.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/suggestion.h"

namespace muster {
namespace {

using Words = std::vector<std::string>;

/// The command that was typed, "muster records show", and what it did not know.
struct Unknown {
  const CLI::App* command;
  std::string name;
  Words words;
};

std::string typed_name(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  if (parent == nullptr) return command.get_name();
  return typed_name(*parent) + (command.get_name().empty() ? "" : " " + command.get_name());
}

// Words that no command took: those of the innermost command that was typed come first.
std::optional<Unknown> find_unknown(const CLI::App& command) {
  for (const CLI::App* const inner : command.get_subcommands()) {
    if (auto unknown = find_unknown(*inner)) return unknown;
  }
  Words words = command.remaining();
  if (words.empty()) return std::nullopt;
  return Unknown{&command, typed_name(command), std::move(words)};
}

Words command_names(const CLI::App& command) {
  Words names;
  for (const CLI::App* const inner : command.get_subcommands({})) {
    if (!inner->get_name().empty()) names.push_back(inner->get_name());
  }
  return names;
}

// Groups of options are commands without a name in CLI11.
void add_flag_names(const CLI::App& command, Words& names) {
  for (const CLI::Option* const option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* const inner : command.get_subcommands({})) {
    if (inner->get_name().empty()) add_flag_names(*inner, names);
  }
}

Words flag_names(const CLI::App& command) {
  Words names;
  add_flag_names(command, names);
  return names;
}

std::string text_of(const Unknown& unknown) {
  const auto flag = std::find_if(unknown.words.begin(), unknown.words.end(),
                                 [](const std::string& word) { return word.starts_with('-'); });
  const std::string of = unknown.name.empty() ? "" : " of " + unknown.name;
  const Words commands = command_names(*unknown.command);
  if (!commands.empty() && flag != unknown.words.begin()) {
    const std::string& word = unknown.words.front();
    const std::string suggestion = did_you_mean(word, commands);
    return fmt::format("unknown command {}{}{}", word, of,
                       suggestion.empty()
                           ? "; there are " + fmt::format("{}", fmt::join(commands, ", "))
                           : suggestion);
  }
  if (flag == unknown.words.end()) {
    return fmt::format("unexpected argument {}{}", unknown.words.front(), of);
  }
  const std::string name = flag->substr(0, flag->find('='));
  return fmt::format("unknown flag {}{}{}", name, of,
                     did_you_mean(name, flag_names(*unknown.command)));
}

// CLI11 has "no bound" as the largest number there is: "--seed: Value x not in range 0.000000 to
// 1797..." with 309 digits in 2.1, "[0 - 1.79769e+308]" in newer ones.
std::string without_endless_range(const CLI::App& app, const std::string& text) {
  constexpr std::string_view kValue = ": Value ";
  constexpr std::string_view kRange = " not in range ";
  const std::size_t value = text.find(kValue);
  const std::size_t range = text.find(kRange, value);
  if (range == std::string::npos) return text;
  if (text.size() - range < 300 && text.find("e+308", range) == std::string::npos) return text;
  const std::string flag = text.substr(0, value);
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const CLI::Option* const option = command->get_option_no_throw(flag);
  const bool zero =
      option != nullptr && option->get_type_name().find("NONNEGATIVE") != std::string::npos;
  const std::size_t begin = value + kValue.size();
  return fmt::format("{} must be a number {}: {}", flag, zero ? "of 0 or more" : "above 0",
                     text.substr(begin, range - begin));
}

bool launcher_adds_arguments() { return std::getenv("RANK") != nullptr; }

}  // namespace

std::string usage_text(const CLI::App& app, const CLI::ParseError& error) {
  if (const auto unknown = find_unknown(app)) return text_of(*unknown);
  return without_endless_range(app, error.what());
}

bool parse_arguments(CLI::App& app, int argc, char** argv) {
  if (app.get_name().empty()) app.name(std::filesystem::path(argv[0]).filename().string());
  return parse_arguments(app, Words(argv + 1, argv + argc));
}

bool parse_arguments(CLI::App& app, std::vector<std::string> words) {
  app.allow_extras(launcher_adds_arguments());
  std::reverse(words.begin(), words.end());  // As CLI11 wants them.
  try {
    app.parse(std::move(words));
  } catch (const CLI::Success& asked_for_help) {
    app.exit(asked_for_help);
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError("{}", usage_text(app, error));
  }
  for (const auto& word : app.remaining()) log::warning("unknown argument: {}", word);
  return true;
}

void set_verbosity(const std::string& word) {
  try {
    log::set_level(log::parse_level(word));
  } catch (const InvalidArgument& error) {
    throw UsageError("--verbosity: {}", error.what());
  }
}

}  // namespace muster
