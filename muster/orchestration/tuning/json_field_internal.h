#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"

namespace muster::tuning {

/// A word of the API and its value here.
template <typename T>
struct Word {
  const char* word;
  T value;
};

/// A value of the block `hyperparameters` and its name for errors: "params[2].minValue". The JSON
/// must outlive it. All throw InvalidArgument, with the name, for a value of another kind.
class Field {
 public:
  Field(const nlohmann::json& value, std::string name) : value_(value), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  std::string text() const;
  double number() const;
  double number(double least, double most) const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  bool boolean() const;
  /// A category, as a flag has it: YAML takes unquoted words for numbers and booleans.
  std::string category() const;
  std::vector<Field> items() const;
  std::vector<std::pair<std::string, Field>> entries() const;
  /// The value of one of these words.
  template <typename T, std::size_t N>
  T one_of(const Word<T> (&words)[N]) const {
    const std::string given = text();
    std::vector<std::string> known;
    for (const auto& word : words) {
      if (given == word.word) return word.value;
      known.emplace_back(word.word);
    }
    refuse_all_but(known);
  }

  [[noreturn]] void refuse(const std::string& expected) const;
  [[noreturn]] void refuse_all_but(const std::vector<std::string>& words) const;
  /// Throws for a field that does not exist, with the nearest one that does.
  [[noreturn]] void unknown(const std::vector<std::string>& known) const;

 private:
  const nlohmann::json& value_;
  std::string name_;
};

}  // namespace muster::tuning
