#include <ATen/Functions.h>

#include "muster/base/error.h"
#include "muster/executor/budget_internal.h"
#include "muster/executor/resource_internal.h"

namespace muster::executor {

bool Variable::has_value() const {
  const std::scoped_lock lock(mutex_);
  return value_.has_value();
}

Value Variable::read() const {
  const std::scoped_lock lock(mutex_);
  if (!value_) throw FailedPrecondition("the variable {} has no value; was it restored?", name_);
  return *value_;
}

void Variable::assign(Value value) {
  if (data_type_of(value) != type_) {
    throw InvalidArgument("the variable {} holds {}, but is given {}", name_, graph::name_of(type_),
                          describe(value));
  }
  const std::scoped_lock lock(mutex_);
  value_ = std::move(value);
}

void Variable::update(const std::function<Value(const Value&)>& change) {
  const std::scoped_lock lock(mutex_);
  if (!value_) throw FailedPrecondition("the variable {} has no value; was it restored?", name_);
  value_ = change(*value_);
}

void Table::fill(const Value& keys, const Value& values) {
  if (data_type_of(keys) != key_type_ || data_type_of(values) != value_type_) {
    throw InvalidArgument("the table {} maps {} to {}, but is given {} and {}", name_,
                          graph::name_of(key_type_), graph::name_of(value_type_), describe(keys),
                          describe(values));
  }
  if (shape_of(keys) != shape_of(values) || shape_of(keys).size() != 1) {
    throw InvalidArgument("the table {} needs as many keys as values, but is given {} and {}",
                          name_, describe(keys), describe(values));
  }
  auto content = std::make_shared<Content>();
  content->size = shape_of(keys)[0];
  const auto* tensor = std::get_if<at::Tensor>(&keys);
  const at::Tensor numbers = tensor ? tensor->cpu().to(at::kLong).contiguous() : at::Tensor();
  for (std::int64_t i = 0; i < content->size; ++i) {
    const bool is_new =
        tensor ? content->numbers.emplace(numbers.data_ptr<std::int64_t>()[i], i).second
               : content->strings
                     .emplace(std::get<StringTensor>(keys).values()[static_cast<std::size_t>(i)], i)
                     .second;
    if (!is_new) throw InvalidArgument("the table {} is given key number {} twice", name_, i);
  }
  content->values = values;
  if (auto* moved = std::get_if<at::Tensor>(&content->values)) *moved = moved->cpu();
  const std::scoped_lock lock(mutex_);
  content_ = std::move(content);
}

std::shared_ptr<const Table::Content> Table::content() const {
  const std::scoped_lock lock(mutex_);
  if (!content_) throw FailedPrecondition("the table {} was not filled", name_);
  return content_;
}

std::int64_t Table::size() const { return content()->size; }

Value Table::find(const Value& keys, const Value& default_value, const Budget& budget) const {
  if (data_type_of(keys) != key_type_ || data_type_of(default_value) != value_type_) {
    throw InvalidArgument("the table {} maps {} to {}, but is asked for {} with the default {}",
                          name_, graph::name_of(key_type_), graph::name_of(value_type_),
                          describe(keys), describe(default_value));
  }
  const auto filled = content();
  const auto shape = shape_of(keys);
  // Place 0 is the default, so that a miss is a place like others.
  std::vector<std::int64_t> places;
  const auto place_in = [&](const auto& map, const auto& key) {
    const auto found = map.find(key);
    places.push_back(found == map.end() ? 0 : found->second + 1);
  };
  if (const auto* strings = std::get_if<StringTensor>(&keys)) {
    for (const auto& key : strings->values()) place_in(filled->strings, key);
  } else {
    const at::Tensor numbers = std::get<at::Tensor>(keys).cpu().to(at::kLong).contiguous();
    const auto* data = numbers.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < numbers.numel(); ++i) place_in(filled->numbers, data[i]);
  }
  if (const auto* values = std::get_if<StringTensor>(&filled->values)) {
    const auto& otherwise = std::get<StringTensor>(default_value).values();
    if (otherwise.size() != 1) throw InvalidArgument("the default of a table must be one value");
    const auto found_at = [&](std::int64_t place) -> const std::string& {
      return place == 0 ? otherwise[0] : values->values()[static_cast<std::size_t>(place - 1)];
    };
    std::size_t bytes = places.size() * sizeof(std::string);
    for (const auto place : places) bytes += found_at(place).size();
    budget.check_room(static_cast<std::int64_t>(bytes));
    std::vector<std::string> out;
    for (const auto place : places) out.push_back(found_at(place));
    return StringTensor(std::move(out), shape);
  }
  const at::Tensor all = at::cat({std::get<at::Tensor>(default_value).cpu().reshape({1}),
                                  std::get<at::Tensor>(filled->values)});
  return all.index_select(0, at::tensor(places, at::kLong)).reshape(shape);
}

std::shared_ptr<Variable> Resources::variable(const std::string& name, graph::DataType type) {
  auto& variable = variables_[name];
  if (!variable) variable = std::make_shared<Variable>(name, type);
  return variable;
}

std::shared_ptr<Table> Resources::table(const std::string& name, graph::DataType key_type,
                                        graph::DataType value_type) {
  auto& table = tables_[name];
  if (!table) table = std::make_shared<Table>(name, key_type, value_type);
  return table;
}

}  // namespace muster::executor
