#include "muster/saved_model/graph/tensor_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace muster::graph {
namespace {

// Where it is, or belongs: at the end, most of the time, when they come in order.
template <typename Rows>
auto place_of(Rows& rows, std::string_view name) {
  if (rows.empty() || rows.back().first < name) return rows.end();
  return std::ranges::lower_bound(rows, name, {},
                                  [](const auto& row) -> std::string_view { return row.first; });
}

template <typename Rows>
auto find_in(Rows& rows, std::string_view name) {
  const auto place = place_of(rows, name);
  return place != rows.end() && place->first == name ? place : rows.end();
}

template <typename Rows>
auto& value_in(Rows& rows, std::string_view name) {
  const auto row = find_in(rows, name);
  if (row == rows.end()) throw std::out_of_range(fmt::format("there is no tensor \"{}\"", name));
  return row->second;
}

}  // namespace

TensorValues::TensorValues(std::initializer_list<value_type> rows) {
  reserve(rows.size());
  for (const value_type& row : rows) emplace(row.first, row.second);
}

TensorValues::iterator TensorValues::find(std::string_view name) { return find_in(rows_, name); }
TensorValues::const_iterator TensorValues::find(std::string_view name) const {
  return find_in(rows_, name);
}

TensorValue& TensorValues::at(std::string_view name) { return value_in(rows_, name); }
const TensorValue& TensorValues::at(std::string_view name) const { return value_in(rows_, name); }

std::pair<TensorValues::iterator, bool> TensorValues::emplace(std::string_view name,
                                                              TensorValue value) {
  const auto place = place_of(rows_, name);
  if (place != end() && place->first == name) return {place, false};
  return {rows_.emplace(place, std::string(name), std::move(value)), true};
}

TensorValue& TensorValues::operator[](std::string_view name) {
  const auto place = place_of(rows_, name);
  if (place != end() && place->first == name) return place->second;
  return rows_.emplace(place, std::string(name), TensorValue())->second;
}

}  // namespace muster::graph
