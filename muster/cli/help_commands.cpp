// muster completion, muster man: what shells and man know of the commands, made from the commands.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/suggestion.h"
#include "muster/cli/command.h"
#include "muster/cli/help_pages.h"

namespace muster::cli {
namespace {

const CLI::App& next_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) return *command;
    // Groups of flags are commands without a name.
    if (!command->get_name().empty()) names.push_back(command->get_name());
  }
  throw UsageError("{} has no command {}{}", app.get_name(), word, did_you_mean(word, names));
}

}  // namespace

void add_help(CLI::App& command) {
  const auto words = std::make_shared<std::vector<std::string>>();
  command.add_option("COMMAND", *words, "The words of a command, such as jobs submit training");
  command.callback([words, &command] {
    const CLI::App* shown = command.get_parent();
    std::string name = shown->get_name();
    for (const std::string& word : *words) {
      shown = &next_command(*shown, word);
      name += " " + word;
    }
    // App::help() is that of the command which was parsed, and that is this one.
    fmt::print("{}", shown->get_formatter()->make_help(shown, name, CLI::AppFormatMode::Normal));
  });
}

void add_completion(CLI::App& command) {
  const auto shell = std::make_shared<std::string>();
  command.add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command.footer("source <(muster completion bash) completes commands and flags in this shell.");
  command.callback(
      [shell, &command] { fmt::print("{}", completion_script(*command.get_parent(), *shell)); });
}

void add_man(CLI::App& command) {
  const auto output = std::make_shared<std::string>();
  command.add_option("--output", *output, "The folder that the pages are written to")->required();
  command.callback([output, &command] {
    const int pages = write_manual_pages(*command.get_parent(), *output);
    fmt::print("{}: {} pages\n", *output, pages);
  });
}

}  // namespace muster::cli
