#pragma once

// Helpers that tests share: whole passes as vectors.

#include <string>
#include <utility>
#include <vector>

#include "muster/data/dataset/dataset.h"

namespace muster {

template <typename T>
std::vector<T> drain(Iterator<T>& iterator) {
  std::vector<T> values;
  while (std::optional<T> value = iterator.next()) values.push_back(std::move(*value));
  return values;
}

template <typename T>
std::vector<T> drain(const Dataset<T>& dataset) {
  return drain(*dataset.iterate());
}

/// A pass in words: elements as `show` shows them, failures as "!" and what they say.
template <typename T, typename Show>
std::vector<std::string> drain_events(Iterator<T>& iterator, Show show) {
  std::vector<std::string> events;
  for (;;) {
    try {
      std::optional<T> value = iterator.next();
      if (!value) return events;
      events.push_back(show(*value));
    } catch (const Error& error) {
      events.push_back("!" + std::string(error.what()));
    }
  }
}

inline std::string show_number(std::int64_t value) { return std::to_string(value); }
inline std::string show_numbers(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) {
    text += (text.empty() ? "" : ",") + std::to_string(value);
  }
  return text;
}

}  // namespace muster
