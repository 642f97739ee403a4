#include <ATen/Functions.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include <cstring>

#include "muster/base/error.h"
#include "muster/saved_model/executor/budget_internal.h"
#include "muster/saved_model/executor/resource_internal.h"
#include "muster/saved_model/executor/small_tensor_ops_internal.h"

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

void Table::check_types(const Value& keys, const Value& values) const {
  if (data_type_of(keys) != key_type_ || data_type_of(values) != value_type_) {
    throw InvalidArgument("the table {} maps {} to {}, but is given {} and {}", name_,
                          graph::name_of(key_type_), graph::name_of(value_type_), describe(keys),
                          describe(values));
  }
  if (shape_of(keys) != shape_of(values)) {
    throw InvalidArgument("the table {} needs as many keys as values, but is given {} and {}",
                          name_, describe(keys), describe(values));
  }
}

std::shared_ptr<const Table::Content> Table::made_of(const Value& keys, const Value& values) const {
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
  content->keys = keys;
  content->values = values;
  for (Value* held : {&content->keys, &content->values}) {
    if (auto* moved = std::get_if<at::Tensor>(held)) *moved = moved->cpu();
  }
  return content;
}

void Table::fill(const Value& keys, const Value& values) {
  check_types(keys, values);
  if (shape_of(keys).size() != 1) {
    throw InvalidArgument("the table {} needs vectors, but is given {} and {}", name_,
                          describe(keys), describe(values));
  }
  auto content = made_of(keys, values);
  const std::scoped_lock lock(mutex_);
  content_ = std::move(content);
}

namespace {

Value empty_vector(graph::DataType type) {
  if (type == graph::DataType::kString) return StringTensor(std::vector<std::string>{});
  return at::empty({0}, scalar_type(type));
}

// The elements of two vectors that `wanted` numbers, those of the second after those of the first.
Value chosen(const Value& first, const Value& second, const std::vector<std::int64_t>& wanted) {
  if (const auto* strings = std::get_if<StringTensor>(&first)) {
    const auto& more = std::get<StringTensor>(second).values();
    const auto split = static_cast<std::int64_t>(strings->values().size());
    std::vector<std::string> out;
    out.reserve(wanted.size());
    for (const auto i : wanted) {
      out.push_back(i < split ? strings->values()[static_cast<std::size_t>(i)]
                              : more[static_cast<std::size_t>(i - split)]);
    }
    return StringTensor(std::move(out));
  }
  return at::cat({std::get<at::Tensor>(first), std::get<at::Tensor>(second).cpu().reshape({-1})})
      .index_select(0, at::tensor(wanted, at::kLong));
}

// The last of equal keys counts; sorted, so that the order is the same everywhere.
template <typename Keys>
std::vector<std::int64_t> last_of_each(const Keys& keys) {
  std::map<std::decay_t<decltype(keys[0])>, std::int64_t> places;
  for (std::size_t i = 0; i < keys.size(); ++i) places[keys[i]] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> out;
  out.reserve(places.size());
  for (const auto& [key, place] : places) out.push_back(place);
  return out;
}

std::vector<std::int64_t> last_of_each(const Value& keys) {
  if (const auto* strings = std::get_if<StringTensor>(&keys))
    return last_of_each(strings->values());
  const at::Tensor numbers = std::get<at::Tensor>(keys).to(at::kLong).contiguous();
  return last_of_each(
      std::span(numbers.data_ptr<std::int64_t>(), static_cast<std::size_t>(numbers.numel())));
}

Value joined(const Value& first, const Value& second) {
  const auto count = shape_of(first)[0] + graph::element_count(shape_of(second)).value_or(0);
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return chosen(first, second, all);
}

}  // namespace

void Table::fill_with_nothing() {
  auto content = made_of(empty_vector(key_type_), empty_vector(value_type_));
  const std::scoped_lock lock(mutex_);
  if (!content_) content_ = std::move(content);
}

std::pair<Value, Value> Table::entries() const {
  const auto held = content();
  return {held->keys, held->values};
}

void Table::insert(const Value& keys, const Value& values) {
  check_types(keys, values);
  const std::scoped_lock lock(mutex_);
  if (!content_) throw FailedPrecondition("the table {} was not filled", name_);
  const Value all_keys = joined(content_->keys, keys);
  const Value all_values = joined(content_->values, values);
  const auto kept = last_of_each(all_keys);
  if (kept.size() > kMaxEntries) {
    throw ResourceExhausted("the table {} would have {} entries; at most {} are kept", name_,
                            kept.size(), kMaxEntries);
  }
  content_ = made_of(chosen(all_keys, empty_vector(key_type_), kept),
                     chosen(all_values, empty_vector(value_type_), kept));
}

std::shared_ptr<const Table::Content> Table::content() const {
  const std::scoped_lock lock(mutex_);
  if (!content_) throw FailedPrecondition("the table {} was not filled", name_);
  return content_;
}

bool Table::is_filled() const {
  const std::scoped_lock lock(mutex_);
  return content_ != nullptr;
}

std::int64_t Table::size() const { return content()->size; }

Value Table::find(const Value& keys, const Value& default_value, Budget& budget) const {
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
    out.reserve(places.size());
    for (const auto place : places) out.push_back(found_at(place));
    return StringTensor(std::move(out), shape);
  }
  const at::Tensor otherwise = std::get<at::Tensor>(default_value).cpu();
  if (otherwise.numel() != 1) throw InvalidArgument("the default of a table must be one value");
  const at::Tensor values = std::get<at::Tensor>(filled->values).contiguous();
  const auto bytes = values.element_size();
  at::Tensor out = empty_on_host(shape, values.scalar_type());
  auto* to = static_cast<char*>(out.data_ptr());
  for (const auto place : places) {
    const auto* from =
        static_cast<const char*>(place == 0 ? otherwise.data_ptr() : values.data_ptr());
    std::memcpy(to, from + (place == 0 ? 0 : static_cast<std::size_t>(place - 1) * bytes), bytes);
    to += bytes;
  }
  return out;
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
