#include "muster/data/features/features.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster {
namespace {

template <typename Kind>
const Kind& get_as(const Features& features, std::string_view name, std::string_view wanted) {
  const FeatureValue& value = features.at(name);
  if (const auto* found = std::get_if<Kind>(&value)) return *found;
  throw InvalidArgument("feature \"{}\" is {}, not {}", name, describe(value), wanted);
}

void check_defined(const std::string& name, const FeatureValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
    if (!tensor->defined()) throw InvalidArgument("feature \"{}\" is an undefined tensor", name);
    if (tensor->dim() == 0) {
      throw InvalidArgument(
          "feature \"{}\" is a scalar: the first dimension must be the batch, as in [batch]", name);
    }
  }
  if (const auto* ragged = std::get_if<RaggedColumn>(&value)) {
    if (!ragged->values.defined() || !ragged->row_splits.defined() || ragged->values.dim() == 0 ||
        ragged->row_splits.dim() != 1 || ragged->row_splits.size(0) == 0 ||
        ragged->row_splits.scalar_type() != at::kLong || !ragged->row_splits.is_cpu()) {
      throw InvalidArgument(
          "feature \"{}\": a ragged column needs values [n, ...] and int64 row splits [rows + 1] "
          "on the CPU",
          name);
    }
  }
}

RaggedColumn slice(const RaggedColumn& column, std::int64_t begin, std::int64_t end) {
  const auto splits = column.row_splits.slice(0, begin, end + 1);
  const auto first = splits[0].item<std::int64_t>();
  const auto last = splits[end - begin].item<std::int64_t>();
  return {
      .values = column.values.slice(0, first, last),
      .row_splits = splits.sub(first),
      .weights = column.weights.defined() ? column.weights.slice(0, first, last) : at::Tensor()};
}

at::Tensor slice(const at::Tensor& tensor, std::int64_t begin, std::int64_t end) {
  return tensor.slice(0, begin, end);
}

StringColumn slice(const StringColumn& column, std::int64_t begin, std::int64_t end) {
  return column.slice(begin, end);
}

at::Tensor move_to(const at::Tensor& tensor, at::Device device, bool non_blocking) {
  return tensor.defined() ? tensor.to(device, tensor.scalar_type(), non_blocking) : tensor;
}

StringColumn move_to(const StringColumn& column, at::Device, bool) { return column; }

RaggedColumn move_to(const RaggedColumn& column, at::Device device, bool non_blocking) {
  return {.values = move_to(column.values, device, non_blocking),
          .row_splits = column.row_splits,
          .weights = move_to(column.weights, device, non_blocking)};
}

}  // namespace

std::int64_t RaggedColumn::rows() const { return row_splits.size(0) - 1; }

std::string_view kind_of(const FeatureValue& value) {
  if (std::holds_alternative<at::Tensor>(value)) return "a tensor";
  if (std::holds_alternative<StringColumn>(value)) return "strings";
  return "a ragged column";
}

std::int64_t rows_of(const FeatureValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) return tensor->size(0);
  if (const auto* strings = std::get_if<StringColumn>(&value)) return strings->rows();
  return std::get<RaggedColumn>(value).rows();
}

std::string describe(const FeatureValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
    return fmt::format("a {} tensor [{}]", c10::toString(tensor->scalar_type()),
                       fmt::join(tensor->sizes(), ", "));
  }
  if (const auto* strings = std::get_if<StringColumn>(&value)) {
    if (strings->is_ragged()) return fmt::format("ragged strings [{}, ?]", strings->rows());
    return fmt::format("strings [{}]", fmt::join(strings->shape(), ", "));
  }
  const auto& ragged = std::get<RaggedColumn>(value);
  return fmt::format("a ragged {} column [{}, ?]", c10::toString(ragged.values.scalar_type()),
                     ragged.rows());
}

Features::Features(std::initializer_list<Column> columns) {
  for (const auto& [name, value] : columns) add(name, value);
}

void Features::check_rows(const std::string& name, const FeatureValue& value,
                          std::size_t other_columns) const {
  if (name.empty()) throw InvalidArgument("a feature needs a name");
  check_defined(name, value);
  if (other_columns > 0 && rows_of(value) != batch_size_) {
    throw InvalidArgument("feature \"{}\" is {}, but the other columns have {} rows ({})", name,
                          describe(value), batch_size_, names());
  }
}

void Features::add(std::string name, FeatureValue value) {
  if (contains(name)) throw AlreadyExists("there already is a feature \"{}\"", name);
  check_rows(name, value, columns_.size());
  batch_size_ = rows_of(value);
  columns_.emplace_back(std::move(name), std::move(value));
}

void Features::set(std::string name, FeatureValue value) {
  const auto place =
      std::ranges::find_if(columns_, [&](const Column& column) { return column.first == name; });
  if (place == columns_.end()) return add(std::move(name), std::move(value));
  check_rows(name, value, columns_.size() - 1);
  batch_size_ = rows_of(value);
  place->second = std::move(value);
}

void Features::remove(std::string_view name) {
  std::erase_if(columns_, [&](const Column& column) { return column.first == name; });
}

const FeatureValue* Features::find(std::string_view name) const {
  for (const auto& [key, value] : columns_) {
    if (key == name) return &value;
  }
  return nullptr;
}

const FeatureValue& Features::at(std::string_view name) const {
  if (const auto* value = find(name)) return *value;
  throw NotFound("there is no feature \"{}\"; there are: {}", name,
                 columns_.empty() ? "none" : names());
}

const at::Tensor& Features::tensor(std::string_view name) const {
  return get_as<at::Tensor>(*this, name, "a tensor");
}

const StringColumn& Features::strings(std::string_view name) const {
  return get_as<StringColumn>(*this, name, "strings");
}

const RaggedColumn& Features::ragged(std::string_view name) const {
  return get_as<RaggedColumn>(*this, name, "a ragged column");
}

const RaggedColumn& Features::ids(std::string_view name) const {
  const auto& column = get_as<RaggedColumn>(*this, name, "a ragged column of ids");
  if (column.values.scalar_type() != at::kLong) {
    throw InvalidArgument("feature \"{}\" is {}, not ids, which are int64", name,
                          describe(FeatureValue(column)));
  }
  return column;
}

std::string Features::names() const {
  std::vector<std::string_view> all;
  for (const auto& column : columns_) all.emplace_back(column.first);
  return fmt::format("{}", fmt::join(all, ", "));
}

Features Features::slice(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > batch_size_) {
    throw OutOfRange("rows [{}, {}) of a batch of {}", begin, end, batch_size_);
  }
  Features part;
  for (const auto& [name, value] : columns_) {
    part.add(name, std::visit([&](const auto& column)
                                  -> FeatureValue { return muster::slice(column, begin, end); },
                              value));
  }
  return part;
}

Features Features::to(at::Device device, bool non_blocking) const {
  Features moved = *this;
  for (auto& column : moved.columns_) {
    column.second = std::visit(
        [&](const auto& value) -> FeatureValue { return move_to(value, device, non_blocking); },
        column.second);
  }
  return moved;
}

}  // namespace muster
