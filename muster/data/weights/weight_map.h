#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/weights/weight.h"

namespace muster {

/// Rules that turn the names and layouts of one model's weights into another's. They are applied in
/// the order in which they were added, each to what the ones before it gave. A pattern is a regular
/// expression (ECMAScript) that the whole name must match; a template is a name in which $1 stands
/// for what the pattern's first parentheses matched. All functions throw InvalidArgument for a
/// pattern that is invalid.
class WeightMap {
 public:
  /// Gives tensors another name.
  WeightMap& rename(const std::string& pattern, const std::string& name);
  /// Replaces a part of names wherever it occurs: {"/", "."}. Here the pattern matches the part.
  WeightMap& replace(const std::string& pattern, const std::string& text);
  /// Reorders dimensions: {1, 0} transposes a matrix. Nothing is copied.
  WeightMap& permute(const std::string& pattern, const std::vector<std::int64_t>& dimensions);
  /// Cuts tensors along a dimension into as many equal parts as there are templates, as one for q,
  /// k and v into three. Nothing is copied.
  WeightMap& split(const std::string& pattern, std::int64_t dimension,
                   const std::vector<std::string>& names);
  /// Joins a tensor and others along a dimension under another name: {"$1.k", "$1.v"} after
  /// "(.*)\\.q". What was joined is left out.
  WeightMap& join(const std::string& pattern, const std::vector<std::string>& others,
                  std::int64_t dimension, const std::string& name);
  /// Leaves tensors out.
  WeightMap& drop(const std::string& pattern);

  /// Rules as text, one per line; '#' begins a comment.
  ///   rename  PATTERN NAME
  ///   replace PATTERN TEXT
  ///   permute PATTERN DIMENSION DIMENSION...
  ///   split   PATTERN DIMENSION NAME NAME...
  ///   join    PATTERN OTHER... DIMENSION NAME
  ///   drop    PATTERN
  /// `file` stands for the text in errors, which name the line.
  static WeightMap parse(std::string_view text, std::string_view file);
  static WeightMap read(const Path& path);

  bool empty() const { return rules_.empty(); }
  /// The rules of another map after those of this one.
  void append(const WeightMap& other);

  /// The tensors under their new names. Throws InvalidArgument for a rule that matches nothing or
  /// does not fit a shape and for two tensors with one name, naming rule and tensors.
  std::vector<Weight> apply(std::vector<Weight> tensors) const;

 private:
  struct Rule {
    /// As parse() reads it, for errors.
    std::string text{};
    std::function<std::vector<Weight>(std::vector<Weight>)> apply{};
  };
  std::vector<Rule> rules_{};
};

}  // namespace muster
