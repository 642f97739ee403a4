// muster completion, muster man: what shells and man know of the commands, made from the commands.
#include <fmt/core.h>

#include <memory>
#include <string>

#include "muster/cli/command.h"
#include "muster/cli/help_pages.h"

namespace muster::cli {

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
