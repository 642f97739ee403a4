#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "muster/saved_model/executor/value.h"

namespace muster::executor {

class Budget;

/// A variable of a model. May be used from any thread.
class Variable {
 public:
  Variable(std::string name, graph::DataType type) : name_(std::move(name)), type_(type) {}

  const std::string& name() const { return name_; }
  bool has_value() const;
  /// Throws FailedPrecondition when nothing was assigned yet.
  Value read() const;
  /// Throws InvalidArgument for another type than the variable's.
  void assign(Value value);
  /// Puts change(value) instead of the value, as one step for all threads.
  void update(const std::function<Value(const Value&)>& change);

 private:
  std::string name_;
  graph::DataType type_;
  mutable std::mutex mutex_;
  std::optional<Value> value_;
};

/// A lookup table from strings or whole numbers to strings or numbers. May be used from any thread.
class Table {
 public:
  Table(std::string name, graph::DataType key_type, graph::DataType value_type)
      : name_(std::move(name)), key_type_(key_type), value_type_(value_type) {}

  const std::string& name() const { return name_; }
  graph::DataType key_type() const { return key_type_; }
  graph::DataType value_type() const { return value_type_; }

  /// Fills the table; a second time the same content is no error, and replaces the first. Throws
  /// InvalidArgument for other types, other lengths or a key that occurs with two values.
  void fill(const Value& keys, const Value& values);
  /// The values of the keys, in the shape of the keys. Throws FailedPrecondition before fill().
  /// Throws ResourceExhausted where the budget has no room for them.
  Value find(const Value& keys, const Value& default_value, Budget& budget) const;
  std::int64_t size() const;

  /// For a table that grows while it is used: makes it an empty one, unless it is filled.
  void fill_with_nothing();
  /// Adds keys with their values, in any shape, instead of those that are there. Throws
  /// FailedPrecondition before the first fill, ResourceExhausted for more than kMaxEntries.
  void insert(const Value& keys, const Value& values);
  /// All keys with their values.
  std::pair<Value, Value> entries() const;

  static constexpr std::size_t kMaxEntries = std::size_t{1} << 24;

  /// Finds strings by views of them.
  struct HashOfWord {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>()(word);
    }
  };
  /// Where each key is, and all keys and values in their order, in the memory of the host.
  struct Content {
    std::unordered_map<std::string, std::int64_t, HashOfWord, std::equal_to<>> strings;
    std::unordered_map<std::int64_t, std::int64_t> numbers;
    Value keys;
    Value values;
    std::int64_t size = 0;
  };

  bool is_filled() const;
  /// Stays as it is, whatever becomes of the table. Throws FailedPrecondition before fill().
  std::shared_ptr<const Content> content() const;

 private:
  void check_types(const Value& keys, const Value& values) const;
  std::shared_ptr<const Content> made_of(const Value& keys, const Value& values) const;

  std::string name_;
  graph::DataType key_type_;
  graph::DataType value_type_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Content> content_;
};

/// The variables and tables of one model, by name. Made while the model is loaded, by one thread.
class Resources {
 public:
  std::shared_ptr<Variable> variable(const std::string& name, graph::DataType type);
  std::shared_ptr<Table> table(const std::string& name, graph::DataType key_type,
                               graph::DataType value_type);
  const std::map<std::string, std::shared_ptr<Variable>>& variables() const { return variables_; }

 private:
  std::map<std::string, std::shared_ptr<Variable>> variables_;
  std::map<std::string, std::shared_ptr<Table>> tables_;
};

}  // namespace muster::executor
