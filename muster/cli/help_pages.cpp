#include "muster/cli/help_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <vector>

#include "muster/base/error.h"

namespace muster::cli {
namespace {

using Apps = std::vector<const CLI::App*>;

Apps subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}

/// "muster records write": the words that lead to a command.
std::string words_to(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : words_to(*parent) + " " + command.get_name();
}

std::string joined(const CLI::App& command, char separator) {
  std::string words = words_to(command);
  std::replace(words.begin(), words.end(), ' ', separator);
  return words;
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

void for_each_command(const CLI::App& app, const std::function<void(const CLI::App&)>& visit) {
  visit(app);
  for (const CLI::App* command : subcommands_of(app)) for_each_command(*command, visit);
}

/// Words that may follow those of a command: its commands and its flags.
std::string candidates(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* next : subcommands_of(command)) words.push_back(next->get_name());
  const auto flags = flags_of(command);
  words.insert(words.end(), flags.begin(), flags.end());
  return fmt::format("{}", fmt::join(words, " "));
}

/// Words that may follow each known sequence of words, as branches of a `case`.
std::string case_table(const CLI::App& app) {
  std::string table;
  for_each_command(app, [&](const CLI::App& command) {
    table += fmt::format("    '{}') candidates='{}' ;;\n", words_to(command), candidates(command));
  });
  return table;
}

// zsh runs it through its bashcompinit, which has no compopt.
constexpr std::string_view kBash = R"(_muster_candidates() {{
  case "$1" in
{table}    *) return 1 ;;
  esac
}}
_muster_files() {{
  COMPREPLY=()
  if type compopt >/dev/null 2>&1; then compopt -o default; else COMPREPLY=($(compgen -f -- "$1")); fi
}}
_muster() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" found=muster candidates='' i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [ "${{COMP_WORDS[i]}}" = -- ]; then _muster_files "$current"; return; fi
    if _muster_candidates "$found ${{COMP_WORDS[i]}}"; then found="$found ${{COMP_WORDS[i]}}"; fi
  done
  _muster_candidates "$found"
  COMPREPLY=($(compgen -W "$candidates" -- "$current"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || _muster_files "$current"
}}
complete -F _muster muster
)";

std::string fish_script(const CLI::App& app) {
  std::string text =
      "# Completes muster in fish: put it into fish's completions folder as muster.fish.\n";
  for_each_command(app, [&](const CLI::App& command) {
    std::string seen;
    for (const CLI::App* at = &command; at->get_parent() != nullptr; at = at->get_parent()) {
      seen = fmt::format("; and __fish_seen_subcommand_from {}{}", at->get_name(), seen);
    }
    const auto next = subcommands_of(command);
    std::vector<std::string> names;
    for (const CLI::App* sub : next) names.push_back(sub->get_name());
    for (const CLI::App* sub : next) {
      text += fmt::format(
          "complete -c muster -n 'true{}; and not __fish_seen_subcommand_from {}' -f -a {}\n", seen,
          fmt::join(names, " "), sub->get_name());
    }
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) {
        text += fmt::format("complete -c muster -n 'true{}' -l {}\n", seen, name);
      }
    }
  });
  return text;
}

/// A backslash and a leading dot or quote mean something to man.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

void add_options(const CLI::App& command, std::string& page) {
  const auto options = command.get_options();
  if (options.empty()) return;
  page += ".SH OPTIONS\n";
  for (const CLI::Option* option : options) {
    page += fmt::format(".TP\n.B {}\n{}\n", escaped(option->get_name(false, true)),
                        escaped(option->get_description()));
  }
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  const auto bash = [&] { return fmt::format(kBash, fmt::arg("table", case_table(app))); };
  if (shell == "bash")
    return "# Completes muster in bash: source it, or put it into bash-completion's folder.\n" +
           bash();
  if (shell == "zsh")
    return "# Completes muster in zsh: source it.\nautoload -U +X bashcompinit && bashcompinit\n" +
           bash();
  if (shell == "fish") return fish_script(app);
  throw InvalidArgument("there is no completion for the shell '{}': use bash, zsh or fish", shell);
}

std::string manual_page(const CLI::App& command) {
  const std::string name = joined(command, '-');
  std::string page = fmt::format(".TH {} 1 \"\" \"muster {}\"\n.SH NAME\n{} \\- {}\n", name,
                                 MUSTER_VERSION, escaped(name), escaped(command.get_description()));
  page += fmt::format(".SH SYNOPSIS\n.B {}\n", escaped(words_to(command)));
  const auto next = subcommands_of(command);
  if (!next.empty()) page += "COMMAND\n";
  page += "[OPTIONS]\n";
  if (!next.empty()) {
    page += ".SH COMMANDS\n";
    for (const CLI::App* sub : next) {
      page += fmt::format(".TP\n.B {}\n{}; see {}(1)\n", escaped(sub->get_name()),
                          escaped(sub->get_description()), escaped(joined(*sub, '-')));
    }
  }
  add_options(command, page);
  if (!command.get_footer().empty())
    page += fmt::format(".SH NOTES\n{}\n", escaped(command.get_footer()));
  return page;
}

int write_manual_pages(const CLI::App& app, const Path& folder) {
  std::filesystem::create_directories(folder.string());
  int count = 0;
  for_each_command(app, [&](const CLI::App& command) {
    const auto path = std::filesystem::path(folder.string()) / (joined(command, '-') + ".1");
    std::ofstream file(path);
    file << manual_page(command);
    file.close();
    if (!file) throw_errno(errno, "writing " + path.string());
    ++count;
  });
  return count;
}

}  // namespace muster::cli
