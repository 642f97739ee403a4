#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/checkpoint/data_type.h"

namespace muster {

/// Kind of a value of a pickle. Containers are numbers of PickleMachine::containers.
enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kText,
  kGlobal,
  kTuple,
  kList,
  kDict,
  /// Items: class and arguments of a call or of a new object, then what it was given later.
  kObject,
  kStorage,
  kTensor,
  /// A number or bytes that no tensor needs.
  kOther,
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  /// Index of a container, storage or tensor in the lists of the machine.
  std::uint32_t index = 0;
  /// An integer or truth value; of texts and globals offset * 2^32 + bytes in the pickle.
  std::int64_t number = 0;
};

/// Reads a pickle onto a stack of values, without running any of it.
class PickleMachine {
 public:
  struct Storage {
    DataType type = DataType::kFloat;
    std::string_view key{};
    std::int64_t bytes = 0;
  };
  struct Tensor {
    std::uint32_t storage = 0;
    DataType type = DataType::kFloat;
    std::int64_t offset = 0;
    std::vector<std::int64_t> shape{};
    std::vector<std::int64_t> strides{};
  };

  PickleMachine(std::string_view pickle, std::uint64_t offset, std::string file,
                std::uint64_t most_bytes);

  /// The value that the pickle is.
  PickleValue read();

  const std::vector<PickleValue>& items(PickleValue container) const {
    return containers_[container.index];
  }
  const Tensor& tensor(PickleValue value) const { return tensors_[value.index]; }
  const Storage& storage(std::uint32_t index) const { return storages_[index]; }
  const std::string& file() const { return file_; }
  std::string_view text(PickleValue value) const;
  /// Counts memory that is taken because of the pickle. Throws ResourceExhausted beyond the bound.
  void charge(std::uint64_t bytes);
  [[noreturn]] void fail(std::string_view problem) const;

 private:
  std::size_t left() const { return pickle_.size() - at_; }
  std::string_view take(std::uint64_t count);
  std::uint64_t little_endian(std::size_t count);
  std::int64_t signed_integer(std::uint64_t count);
  std::string_view line();

  /// Whether the opcode is of the kind that the function reads.
  bool read_scalar(std::uint8_t opcode);
  bool read_text(std::uint8_t opcode);
  bool read_container(std::uint8_t opcode);
  bool read_memo(std::uint8_t opcode);
  bool read_object(std::uint8_t opcode);

  void push(PickleValue value);
  PickleValue pop();
  void push_text(std::string_view text, PickleKind kind = PickleKind::kText);
  void push_container(PickleKind kind, std::vector<PickleValue> items);
  std::vector<PickleValue> pop_to_mark();
  std::vector<PickleValue> pop_many(std::size_t count);
  void append(std::vector<PickleValue> items, PickleKind kind);
  void put(std::uint64_t index);
  void get(std::uint64_t index);

  void push_global(std::string_view module, std::string_view name);
  bool is_global(PickleValue value, std::string_view module, std::string_view name) const;
  void call();
  void build();
  void push_storage();
  void push_tensor(const std::vector<PickleValue>& arguments, const DataType* type);
  std::vector<std::int64_t> sizes_of(PickleValue tuple);
  std::int64_t integer_of(PickleValue value) const;

  std::string_view pickle_;
  std::uint64_t offset_;
  std::string file_;
  std::uint64_t most_bytes_;
  std::uint64_t charged_ = 0;
  std::size_t at_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleValue> memo_;
  std::vector<std::vector<PickleValue>> containers_;
  std::vector<std::pair<std::string_view, std::string_view>> globals_;
  std::vector<Storage> storages_;
  std::vector<Tensor> tensors_;
};

}  // namespace muster
