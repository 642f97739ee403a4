#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/saved_model/graph/tensor_value.h"

namespace muster::graph {

/// The inputs or outputs of a signature, sorted by name, in one piece of memory: a request has a
/// dozen, and a std::map takes memory for each. The functions are those of a std::map. Iterators
/// end with the next change.
class TensorValues {
 public:
  using value_type = std::pair<std::string, TensorValue>;
  using iterator = std::vector<value_type>::iterator;
  using const_iterator = std::vector<value_type>::const_iterator;

  TensorValues() = default;
  TensorValues(std::initializer_list<value_type> rows);

  iterator begin() { return rows_.begin(); }
  iterator end() { return rows_.end(); }
  const_iterator begin() const { return rows_.begin(); }
  const_iterator end() const { return rows_.end(); }
  std::size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }

  iterator find(std::string_view name);
  const_iterator find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != end(); }
  /// Throws std::out_of_range where there is none of the name.
  TensorValue& at(std::string_view name);
  const TensorValue& at(std::string_view name) const;

  void reserve(std::size_t size) { rows_.reserve(size); }
  /// One that is there stays as it is. Fastest in the order of the names.
  std::pair<iterator, bool> emplace(std::string_view name, TensorValue value);
  TensorValue& operator[](std::string_view name);
  iterator erase(const_iterator row) { return rows_.erase(row); }
  void clear() { rows_.clear(); }

  bool operator==(const TensorValues&) const = default;
  template <typename Is>
  friend std::size_t erase_if(TensorValues& values, const Is& is) {
    return std::erase_if(values.rows_, is);
  }

 private:
  std::vector<value_type> rows_;
};

}  // namespace muster::graph
