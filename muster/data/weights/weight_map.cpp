#include "muster/data/weights/weight_map.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

// std::regex recurses for every character.
constexpr std::size_t kMostNameBytes = 4096;

class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    try {
      regex_.assign(text);
    } catch (const std::regex_error& error) {
      throw InvalidArgument("'{}' is no regular expression: {}", text, error.what());
    }
  }

  /// Names that the templates give for a name; nothing when it does not match.
  std::optional<std::vector<std::string>> expand(const std::string& name,
                                                 const std::vector<std::string>& templates) const {
    check_length(name);
    std::smatch match;
    if (!std::regex_match(name, match, regex_)) return std::nullopt;
    std::vector<std::string> names;
    names.reserve(templates.size());
    for (const std::string& one : templates) names.push_back(match.format(one));
    return names;
  }

  /// The name with every match replaced; nothing when there is none.
  std::optional<std::string> replace(const std::string& name, const std::string& text) const {
    check_length(name);
    if (!std::regex_search(name, regex_)) return std::nullopt;
    return std::regex_replace(name, regex_, text);
  }

 private:
  static void check_length(const std::string& name) {
    if (name.size() <= kMostNameBytes) return;
    throw InvalidArgument("a tensor has a name of {} bytes; names of at most {} are matched",
                          name.size(), kMostNameBytes);
  }

  std::regex regex_;
};

/// Tensors one after another along a dimension, joined when they are read.
class JoinedStorage final : public WeightStorage {
 public:
  JoinedStorage(std::vector<Weight> parts, std::int64_t dimension)
      : parts_(std::move(parts)), dimension_(static_cast<std::size_t>(dimension)) {
    for (const Weight& part : parts_) bytes_ += element_bytes(part);
  }

  std::uint64_t size_bytes() const override { return bytes_; }

  WeightBytes read() const override {
    const auto joined = std::make_shared<std::vector<std::byte>>(bytes_);
    if (bytes_ == 0) return {.bytes = *joined, .owner = joined};
    const auto& shape = parts_.front().spec.shape;
    std::size_t rows = 1;
    for (std::size_t i = 0; i < dimension_; ++i) rows *= static_cast<std::size_t>(shape[i]);
    std::size_t at = 0;
    for (const Weight& part : parts_) {
      const WeightBytes bytes = row_major_bytes(part);
      const std::size_t run = bytes.bytes.size() / rows;
      for (std::size_t row = 0; row < rows && run > 0; ++row) {
        std::memcpy(joined->data() + row * (bytes_ / rows) + at, bytes.bytes.data() + row * run,
                    run);
      }
      at += run;
    }
    return {.bytes = *joined, .owner = joined};
  }

 private:
  std::vector<Weight> parts_;
  std::size_t dimension_;
  std::uint64_t bytes_ = 0;
};

/// The name that a rule gives a tensor. Groups that the pattern lacks are empty.
std::string checked_name(std::string name, const std::string& before) {
  if (name.empty()) throw InvalidArgument("tensor '{}' would have an empty name", before);
  return name;
}

void check_dimension(const Weight& weight, std::int64_t dimension) {
  const auto rank = static_cast<std::int64_t>(weight.spec.shape.size());
  if (dimension < 0 || dimension >= rank) {
    throw InvalidArgument("tensor '{}', {}, has no dimension {}", weight.name,
                          to_string(weight.spec), dimension);
  }
}

Weight permuted(Weight weight, const std::vector<std::int64_t>& dimensions) {
  std::vector<std::int64_t> sorted = dimensions;
  std::sort(sorted.begin(), sorted.end());
  bool is_order = sorted.size() == weight.spec.shape.size();
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    is_order = is_order && sorted[i] == static_cast<std::int64_t>(i);
  }
  if (!is_order) {
    throw InvalidArgument("tensor '{}', {}, does not have the dimensions {}", weight.name,
                          to_string(weight.spec), shape_text(dimensions));
  }
  const auto shape = weight.spec.shape;
  const auto strides = weight.strides;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    weight.spec.shape[i] = shape[static_cast<std::size_t>(dimensions[i])];
    weight.strides[i] = strides[static_cast<std::size_t>(dimensions[i])];
  }
  return weight;
}

std::vector<Weight> cut(const Weight& weight, std::int64_t dimension,
                        const std::vector<std::string>& names) {
  check_dimension(weight, dimension);
  const auto at = static_cast<std::size_t>(dimension);
  const auto count = static_cast<std::int64_t>(names.size());
  if (weight.spec.shape[at] % count != 0) {
    throw InvalidArgument("tensor '{}', {}, cannot be cut into {} equal parts along dimension {}",
                          weight.name, to_string(weight.spec), count, dimension);
  }
  const std::int64_t size = weight.spec.shape[at] / count;
  std::vector<Weight> parts;
  for (const std::string& name : names) {
    Weight part = weight;
    part.name = checked_name(name, weight.name);
    part.spec.shape[at] = size;
    part.first_byte += static_cast<std::uint64_t>(size * weight.strides[at]) * parts.size() *
                       element_bytes(weight.spec.type);
    // A tensor without elements begins nowhere.
    if (element_bytes(weight) == 0) part.first_byte = weight.first_byte;
    parts.push_back(std::move(part));
  }
  return parts;
}

Weight joined(std::vector<Weight> parts, std::int64_t dimension, std::string name) {
  const TensorSpec first = parts.front().spec;
  check_dimension(parts.front(), dimension);
  const auto at = static_cast<std::size_t>(dimension);
  TensorSpec spec = first;
  spec.shape[at] = 0;
  for (const Weight& part : parts) {
    TensorSpec alike = part.spec;
    if (alike.shape.size() == first.shape.size()) alike.shape[at] = first.shape[at];
    if (alike != first) {
      throw InvalidArgument("tensors '{}', {}, and '{}', {}, cannot be joined along dimension {}",
                            parts.front().name, to_string(first), part.name, to_string(part.spec),
                            dimension);
    }
    if (__builtin_add_overflow(spec.shape[at], part.spec.shape[at], &spec.shape[at]) ||
        !element_count(spec.shape)) {
      throw InvalidArgument("tensor '{}' joined of {} would be too large", name, parts.size());
    }
  }
  Weight weight{.name = std::move(name), .spec = std::move(spec)};
  weight.strides = row_major_strides(weight.spec.shape);
  weight.storage = std::make_shared<JoinedStorage>(std::move(parts), dimension);
  return weight;
}

/// Throws when a rule did nothing: it is misspelt, or the file is of another model.
void check_matched(bool has_matched, const std::vector<Weight>& tensors) {
  if (has_matched) return;
  std::vector<std::string> some;
  for (const Weight& weight : tensors) {
    if (some.size() == 5) break;
    some.push_back(weight.name);
  }
  throw InvalidArgument("it matches none of the {} tensors; the first are: {}", tensors.size(),
                        fmt::join(some, ", "));
}

/// Replaces each tensor that matches by what `change(weight, names)` makes of it.
template <typename Change>
std::vector<Weight> change_matching(std::vector<Weight> tensors, const Pattern& pattern,
                                    const std::vector<std::string>& templates, Change change) {
  std::vector<Weight> changed;
  bool has_matched = false;
  for (Weight& weight : tensors) {
    if (const auto names = pattern.expand(weight.name, templates)) {
      has_matched = true;
      for (Weight& one : change(std::move(weight), *names)) changed.push_back(std::move(one));
    } else {
      changed.push_back(std::move(weight));
    }
  }
  // Where nothing matched, these are all there were.
  check_matched(has_matched, changed);
  return changed;
}

std::vector<Weight> join_matching(const std::vector<Weight>& tensors, const Pattern& pattern,
                                  const std::vector<std::string>& templates,
                                  std::int64_t dimension) {
  std::unordered_map<std::string_view, const Weight*> by_name;
  for (const Weight& weight : tensors) by_name.emplace(weight.name, &weight);
  std::set<const Weight*> used;
  std::map<const Weight*, Weight> joins;
  for (const Weight& weight : tensors) {
    const auto names = pattern.expand(weight.name, templates);
    if (!names) continue;
    std::vector<Weight> parts{weight};
    used.insert(&weight);
    for (std::size_t i = 0; i + 1 < names->size(); ++i) {
      const auto found = by_name.find((*names)[i]);
      if (found == by_name.end()) {
        throw InvalidArgument("there is no tensor '{}' to be joined with '{}'", (*names)[i],
                              weight.name);
      }
      parts.push_back(*found->second);
      used.insert(found->second);
    }
    joins.emplace(&weight,
                  joined(std::move(parts), dimension, checked_name(names->back(), weight.name)));
  }
  check_matched(!joins.empty(), tensors);
  std::vector<Weight> changed;
  for (const Weight& weight : tensors) {
    if (const auto join = joins.find(&weight); join != joins.end()) {
      changed.push_back(join->second);
    } else if (!used.contains(&weight)) {
      changed.push_back(weight);
    }
  }
  return changed;
}

void check_unique(const std::vector<Weight>& tensors) {
  std::set<std::string_view> names;
  for (const Weight& weight : tensors) {
    if (!names.insert(weight.name).second) {
      throw InvalidArgument("it gives two tensors the name '{}'", weight.name);
    }
  }
}

std::int64_t dimension_of(const std::string& word) {
  std::int64_t value = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || rest != end) throw InvalidArgument("'{}' is no dimension", word);
  return value;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (;;) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos) return words;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    words.emplace_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

void add_rule(WeightMap& map, const std::vector<std::string>& words) {
  const std::string& verb = words.front();
  const auto from = [&](std::size_t first, std::size_t left_over = 0) {
    return std::vector<std::string>(words.begin() + static_cast<std::ptrdiff_t>(first),
                                    words.end() - static_cast<std::ptrdiff_t>(left_over));
  };
  if (verb == "rename" && words.size() == 3) {
    map.rename(words[1], words[2]);
  } else if (verb == "replace" && words.size() == 3) {
    map.replace(words[1], words[2]);
  } else if (verb == "permute" && words.size() > 2) {
    std::vector<std::int64_t> dimensions;
    for (const std::string& word : from(2)) dimensions.push_back(dimension_of(word));
    map.permute(words[1], dimensions);
  } else if (verb == "split" && words.size() > 4) {
    map.split(words[1], dimension_of(words[2]), from(3));
  } else if (verb == "join" && words.size() > 4) {
    map.join(words[1], from(2, 2), dimension_of(words[words.size() - 2]), words.back());
  } else if (verb == "drop" && words.size() == 2) {
    map.drop(words[1]);
  } else {
    throw InvalidArgument(
        "no rule: '{}'; known are: rename PATTERN NAME, replace PATTERN TEXT, permute PATTERN "
        "DIMENSION..., split PATTERN DIMENSION NAME..., join PATTERN OTHER... DIMENSION NAME, drop "
        "PATTERN",
        fmt::join(words, " "));
  }
}

}  // namespace

WeightMap& WeightMap::rename(const std::string& pattern, const std::string& name) {
  rules_.push_back({fmt::format("rename {} {}", pattern, name),
                    [pattern = Pattern(pattern), name](std::vector<Weight> tensors) {
                      return change_matching(
                          std::move(tensors), pattern, {name},
                          [](Weight weight, const std::vector<std::string>& names) {
                            weight.name = checked_name(names.front(), weight.name);
                            return std::vector{std::move(weight)};
                          });
                    }});
  return *this;
}

WeightMap& WeightMap::replace(const std::string& pattern, const std::string& text) {
  rules_.push_back({fmt::format("replace {} {}", pattern, text),
                    [pattern = Pattern(pattern), text](std::vector<Weight> tensors) {
                      bool has_matched = false;
                      for (Weight& weight : tensors) {
                        auto name = pattern.replace(weight.name, text);
                        if (!name) continue;
                        has_matched = true;
                        weight.name = checked_name(*name, weight.name);
                      }
                      check_matched(has_matched, tensors);
                      return tensors;
                    }});
  return *this;
}

WeightMap& WeightMap::permute(const std::string& pattern,
                              const std::vector<std::int64_t>& dimensions) {
  rules_.push_back({fmt::format("permute {} {}", pattern, fmt::join(dimensions, " ")),
                    [pattern = Pattern(pattern), dimensions](std::vector<Weight> tensors) {
                      return change_matching(
                          std::move(tensors), pattern, {},
                          [&](Weight weight, const std::vector<std::string>&) {
                            return std::vector{permuted(std::move(weight), dimensions)};
                          });
                    }});
  return *this;
}

WeightMap& WeightMap::split(const std::string& pattern, std::int64_t dimension,
                            const std::vector<std::string>& names) {
  if (names.empty()) throw InvalidArgument("split {}: no names of parts", pattern);
  rules_.push_back({fmt::format("split {} {} {}", pattern, dimension, fmt::join(names, " ")),
                    [pattern = Pattern(pattern), dimension, names](std::vector<Weight> tensors) {
                      return change_matching(
                          std::move(tensors), pattern, names,
                          [&](const Weight& weight, const std::vector<std::string>& parts) {
                            return cut(weight, dimension, parts);
                          });
                    }});
  return *this;
}

WeightMap& WeightMap::join(const std::string& pattern, const std::vector<std::string>& others,
                           std::int64_t dimension, const std::string& name) {
  std::vector<std::string> templates = others;
  templates.push_back(name);
  rules_.push_back(
      {fmt::format("join {} {} {} {}", pattern, fmt::join(others, " "), dimension, name),
       [pattern = Pattern(pattern), templates, dimension](const std::vector<Weight>& tensors) {
         return join_matching(tensors, pattern, templates, dimension);
       }});
  return *this;
}

WeightMap& WeightMap::drop(const std::string& pattern) {
  rules_.push_back(
      {fmt::format("drop {}", pattern), [pattern = Pattern(pattern)](std::vector<Weight> tensors) {
         return change_matching(
             std::move(tensors), pattern, {},
             [](const Weight&, const std::vector<std::string>&) { return std::vector<Weight>(); });
       }});
  return *this;
}

WeightMap WeightMap::parse(std::string_view text, std::string_view file) {
  WeightMap map;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto words = words_of(line);
    if (words.empty() || words.front().starts_with('#')) continue;
    try {
      add_rule(map, words);
    } catch (Error& error) {
      error.add_context(fmt::format("{}: line {}", file, number));
      throw;
    }
  }
  return map;
}

WeightMap WeightMap::read(const Path& path) { return parse(read_file(path), path.string()); }

void WeightMap::append(const WeightMap& other) {
  rules_.insert(rules_.end(), other.rules_.begin(), other.rules_.end());
}

std::vector<Weight> WeightMap::apply(std::vector<Weight> tensors) const {
  for (const Rule& rule : rules_) {
    try {
      tensors = rule.apply(std::move(tensors));
      check_unique(tensors);
    } catch (Error& error) {
      error.add_context(fmt::format("rule '{}'", rule.text));
      throw;
    }
  }
  return tensors;
}

}  // namespace muster
