#include "muster/base/flags/flags.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <list>
#include <set>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/flags/arguments.h"

namespace muster {
namespace {

using Words = std::vector<std::string>;

Words split_names(const std::string& names) {
  Words split;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    split.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return split;
}

/// "--train-steps" also as "--train_steps".
Words both_spellings(const std::string& names) {
  Words all;
  for (const std::string& name : split_names(names)) {
    std::string other = name;
    std::replace(other.begin() + std::min<std::ptrdiff_t>(2, std::ssize(other)), other.end(), '-',
                 '_');
    for (const std::string& spelling : {name, other}) {
      if (std::find(all.begin(), all.end(), spelling) == all.end()) all.push_back(spelling);
    }
  }
  return all;
}

bool is_truth(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word == "true" || word == "false";
}

template <typename Value>
CLI::Option* add_to(CLI::App& app, const std::string& names, const std::string& text,
                    Value& value) {
  return app.add_option(names, value, text)->capture_default_str();
}
CLI::Option* add_to(CLI::App& app, const std::string& names, const std::string& text, bool& value) {
  return app.add_flag(names, value, text);
}
CLI::Option* add_to(CLI::App& app, const std::string& names, const std::string& text,
                    std::string& value) {
  CLI::Option* const option = app.add_option(names, value, text);
  return value.empty() ? option : option->capture_default_str();
}
CLI::Option* add_to(CLI::App& app, const std::string& names, const std::string& text,
                    Words& value) {
  return app.add_option(names, value, text)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}
template <typename Value>
CLI::Option* add_to(CLI::App& app, const std::string& names, const std::string& text,
                    std::optional<Value>& value) {
  return app.add_option(names, value, text);
}

template <typename Value>
std::optional<std::string> text_of_value(const Value& value) {
  return fmt::format("{}", value);
}
std::optional<std::string> text_of_value(const std::string& value) {
  return value.empty() ? std::nullopt : std::optional(value);
}
std::optional<std::string> text_of_value(const Words& values) {
  return values.empty() ? std::nullopt : std::optional(fmt::format("{}", fmt::join(values, ",")));
}
template <typename Value>
std::optional<std::string> text_of_value(const std::optional<Value>& value) {
  return value ? text_of_value(*value) : std::nullopt;
}

std::optional<std::string> text_of_target(const FlagTarget& target) {
  return std::visit([](const auto* value) { return text_of_value(*value); }, target);
}

}  // namespace

struct Flag::Entry {
  std::string name{};
  FlagTarget target;
  CLI::Option* option = nullptr;
  bool is_standard = false;
  bool is_hparam = true;
};

Flag& Flag::required() {
  if (entry_ != nullptr) entry_->option->required();
  return *this;
}

Flag& Flag::positive() {
  if (entry_ != nullptr) entry_->option->check(CLI::PositiveNumber);
  return *this;
}

Flag& Flag::not_negative() {
  if (entry_ != nullptr) entry_->option->check(CLI::NonNegativeNumber);
  return *this;
}

Flag& Flag::between(double low, double high) {
  if (entry_ != nullptr) entry_->option->check(CLI::Range(low, high));
  return *this;
}

Flag& Flag::one_of(std::initializer_list<const char*> words) {
  if (entry_ != nullptr) entry_->option->check(CLI::IsMember(Words(words.begin(), words.end())));
  return *this;
}

Flag& Flag::separated_by(char separator) {
  if (entry_ != nullptr) entry_->option->delimiter(separator);
  return *this;
}

Flag& Flag::not_in_hparams() {
  if (entry_ != nullptr) entry_->is_hparam = false;
  return *this;
}

struct FlagSet::Impl {
  explicit Impl(std::string description) : app(std::move(description)) {
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  // CLI11's names, and for the truth of a bool that is a word of its own.
  std::string note_names(const Words& names, bool is_switch) {
    if (is_switch) switches.insert(names.begin(), names.end());
    return fmt::format("{}", fmt::join(names, ","));
  }

  bool has_any(const Words& names) const {
    return std::ranges::any_of(names, [this](const std::string& name) {
      return app.get_option_no_throw(name) != nullptr;
    });
  }

  // Those of the program come first.
  void remove_standard(const Words& names) {
    std::erase_if(entries, [&](const Flag::Entry& entry) {
      const bool is_taken =
          entry.is_standard && std::ranges::any_of(names, [&](const std::string& name) {
            return entry.option->check_name(name);
          });
      if (is_taken) app.remove_option(entry.option);
      return is_taken;
    });
  }

  Flag::Entry& add(const Words& all, FlagTarget target, const std::string& text) {
    CLI::Option* const option = std::visit(
        [&](auto* value) {
          const bool is_switch = std::is_same_v<decltype(value), bool*>;
          return add_to(app, note_names(all, is_switch), text, *value);
        },
        target);
    return entries.emplace_back(
        Flag::Entry{.name = all.front().substr(all.front().find_first_not_of('-')),
                    .target = target,
                    .option = option});
  }

  // Unless the program has one.
  void add_version() {
    if (app.get_option_no_throw("--version") != nullptr) return;
    const auto version = [this] {
      return fmt::format("{}muster {}", app.get_name().empty() ? "" : app.get_name() + ", of ",
                         MUSTER_VERSION);
    };
    app.set_version_flag("--version", version, "Print the version of muster");
  }

  Words joined_switches(const Words& words) const {
    Words joined;
    for (const std::string& word : words) {
      if (!joined.empty() && switches.contains(joined.back()) && is_truth(word)) {
        joined.back() += "=" + word;
      } else {
        joined.push_back(word);
      }
    }
    return joined;
  }

  CLI::App app;
  std::set<std::string> switches;
  /// In the order in which they were added; each stays where it is.
  std::list<Flag::Entry> entries;
  std::optional<std::string> verbosity;
};

FlagSet::FlagSet(std::string description) : impl_(std::make_unique<Impl>(std::move(description))) {}
FlagSet::~FlagSet() = default;

Flag FlagSet::add(const std::string& names, FlagTarget target, const std::string& text) {
  const Words all = both_spellings(names);
  impl_->remove_standard(all);
  try {
    return Flag(&impl_->add(all, target, text));
  } catch (const CLI::ConstructionError& error) {
    throw InvalidArgument("flag {}: {}", names, error.what());
  }
}

Flag FlagSet::add_standard(const std::string& names, FlagTarget target, const std::string& text) {
  const Words all = both_spellings(names);
  if (impl_->has_any(all)) return Flag(nullptr);
  Flag flag = add(names, target, text);
  flag.entry_->is_standard = true;
  return flag;
}

void FlagSet::add_action(const std::string& names, std::function<void(bool)> act,
                         const std::string& text) {
  impl_->app
      .add_flag_function(
          impl_->note_names(both_spellings(names), true),
          [act = std::move(act)](std::int64_t yes) { act(yes > 0); }, text)
      ->trigger_on_parse();
}

void FlagSet::add_verbosity() {
  impl_->verbosity = "INFO";
  impl_->app.add_option("--verbosity", *impl_->verbosity, "DEBUG, INFO, WARN, ERROR or FATAL")
      ->capture_default_str();
}

bool FlagSet::parse(int argc, char** argv) {
  if (impl_->app.get_name().empty())
    impl_->app.name(std::filesystem::path(argv[0]).filename().string());
  return parse(Words(argv + 1, argv + argc));
}

bool FlagSet::parse(const std::vector<std::string>& words) {
  impl_->add_version();
  if (!parse_arguments(impl_->app, impl_->joined_switches(words))) return false;
  if (impl_->verbosity) set_verbosity(*impl_->verbosity);
  return true;
}

std::vector<std::pair<std::string, std::string>> FlagSet::values() const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Flag::Entry& entry : impl_->entries) {
    if (const auto text = text_of_target(entry.target)) values.emplace_back(entry.name, *text);
  }
  return values;
}

std::map<std::string, std::string> FlagSet::hparams() const {
  std::map<std::string, std::string> hparams;
  for (const Flag::Entry& entry : impl_->entries) {
    const auto value = text_of_target(entry.target);
    std::string name = entry.name;
    const auto says = [&name](const char* word) { return name.find(word) != name.npos; };
    if (!value || !entry.is_hparam) continue;
    if (says("file") || says("dir") || says("path") || says("predictions")) continue;
    std::ranges::replace(name, '-', '_');
    hparams[name] = *value;
  }
  return hparams;
}

}  // namespace muster
