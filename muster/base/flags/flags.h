#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace muster {

/// Where the value of a flag goes. What is there before is the default, and the help shows it.
using FlagTarget =
    std::variant<bool*, int*, std::int64_t*, std::uint64_t*, double*, std::string*,
                 std::vector<std::string>*, std::optional<std::int64_t>*, std::optional<double>*>;

/// One flag, to say what values it takes.
class Flag {
 public:
  Flag& required();
  Flag& positive();
  Flag& not_negative();
  Flag& between(double low, double high);
  Flag& one_of(std::initializer_list<const char*> words);
  /// Separator of the values of a list: one word may hold several.
  Flag& separated_by(char separator);
  /// Says nothing about what is trained: FlagSet::hparams() leaves it out.
  Flag& not_in_hparams();

 private:
  friend class FlagSet;
  struct Entry;
  explicit Flag(Entry* entry) : entry_(entry) {}
  /// Null for a standard flag whose name the program has taken.
  Entry* entry_;
};

/// The flags of a program. Each has two spellings, --train-steps and --train_steps; the last value
/// counts where one is given twice; a bool takes --sync, --sync=false and --sync False.
///
///   std::int64_t steps = 100;
///   muster::FlagSet flags("Trains a network.");
///   flags.add("--train-steps", &steps, "Train up to this global step").positive();
///   if (!flags.parse(argc, argv)) return 0;  // It asked for --help.
class FlagSet {
 public:
  explicit FlagSet(std::string description);
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  /// `names` are one name or several with commas between: "--job-dir,--model-dir". The target must
  /// live as long as this. Throws InvalidArgument for a name that is taken.
  Flag add(const std::string& names, FlagTarget target, const std::string& text = {});
  /// The same for a flag that many programs have: one that the program adds under one of its names,
  /// before or afterwards, takes its place.
  Flag add_standard(const std::string& names, FlagTarget target, const std::string& text = {});
  /// Calls `act` with the value of a flag that is a bool.
  void add_action(const std::string& names, std::function<void(bool)> act,
                  const std::string& text = {});
  /// --verbosity, which sets the level of the log.
  void add_verbosity();

  /// Returns false when help was asked for, which is printed then. Throws UsageError, with the flag
  /// and the nearest name for one that there is not; unknown arguments are only logged where a
  /// launcher that adds some to every program started this one (RANK is set).
  bool parse(int argc, char** argv);
  /// The same with the words behind the program's name. May be called again, after the targets got
  /// other defaults.
  bool parse(const std::vector<std::string>& words);

  /// The flags' names without dashes in front, in the order in which they were added, with the
  /// values that the targets have now; a list's are joined with commas, and what has none is left
  /// out.
  std::vector<std::pair<std::string, std::string>> values() const;
  /// The same as RunConfig::hparams wants it, "train_batch_size" for --train-batch-size; without
  /// those that say nothing about what is trained: files, folders, paths, Flag::not_in_hparams().
  std::map<std::string, std::string> hparams() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
