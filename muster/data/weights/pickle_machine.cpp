#include <fmt/core.h>

#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/weights/pickle_machine_internal.h"

namespace muster {
namespace {

/// The opcodes of protocols 2 to 5 that pickles of tensors and of plain values have.
enum WeightOpcode : std::uint8_t {
  kProto = 0x80,
  kFrame = 0x95,
  kStop = '.',
  kMark = '(',
  kPop = '0',
  kPopMark = '1',
  kEmptyDict = '}',
  kDict = 'd',
  kSetItem = 's',
  kSetItems = 'u',
  kEmptyList = ']',
  kList = 'l',
  kAppend = 'a',
  kAppends = 'e',
  kEmptySet = 0x8F,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kReduce = 'R',
  kNewObject = 0x81,
  kBuild = 'b',
  kPersistentId = 'Q',
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kNone = 'N',
  kTrue = 0x88,
  kFalse = 0x89,
  kInt1 = 'K',
  kInt2 = 'M',
  kInt4 = 'J',
  kLong1 = 0x8A,
  kFloat = 'G',
  kShortString = 'U',
  kString = 'T',
  kShortUnicode = 0x8C,
  kUnicode = 'X',
  kUnicode8 = 0x8D,
  kShortBytes = 'C',
  kBytes = 'B',
  kBytes8 = 0x8E,
  kPut = 'q',
  kLongPut = 'r',
  kMemoize = 0x94,
  kGet = 'h',
  kLongGet = 'j',
};

constexpr std::size_t kMostGlobalBytes = 512;
// Picklers write items in groups of 1,000.
constexpr std::size_t kMostStacked = 1 << 16;
constexpr std::size_t kMostTensorDimensions = 64;
// Vectors that grow hold twice what is in them while they are copied.
constexpr std::uint64_t kGrowth = 3;

struct StorageRow {
  std::string_view name;
  DataType type;
};

/// The classes of storages in "torch".
constexpr StorageRow kStorages[] = {
    {"FloatStorage", DataType::kFloat},
    {"DoubleStorage", DataType::kDouble},
    {"HalfStorage", DataType::kHalf},
    {"BFloat16Storage", DataType::kBfloat16},
    {"LongStorage", DataType::kInt64},
    {"IntStorage", DataType::kInt32},
    {"ShortStorage", DataType::kInt16},
    {"CharStorage", DataType::kInt8},
    {"ByteStorage", DataType::kUint8},
    {"UntypedStorage", DataType::kUint8},
    {"BoolStorage", DataType::kBool},
    {"ComplexFloatStorage", DataType::kComplex64},
    {"ComplexDoubleStorage", DataType::kComplex128},
};

/// Types that PyTorch 2 has without a class of storages, and the others that it names so.
constexpr StorageRow kDtypes[] = {
    {"float8_e4m3fn", DataType::kFloat8E4m3fn},
    {"float8_e5m2", DataType::kFloat8E5m2},
    {"uint16", DataType::kUint16},
    {"uint32", DataType::kUint32},
    {"uint64", DataType::kUint64},
    {"float32", DataType::kFloat},
    {"float64", DataType::kDouble},
    {"float16", DataType::kHalf},
    {"bfloat16", DataType::kBfloat16},
    {"int64", DataType::kInt64},
    {"int32", DataType::kInt32},
    {"int16", DataType::kInt16},
    {"int8", DataType::kInt8},
    {"uint8", DataType::kUint8},
    {"bool", DataType::kBool},
    {"complex64", DataType::kComplex64},
    {"complex128", DataType::kComplex128},
};

template <std::size_t N>
const DataType* type_named(const StorageRow (&rows)[N], std::string_view name) {
  for (const StorageRow& row : rows) {
    if (row.name == name) return &row.type;
  }
  return nullptr;
}

}  // namespace

PickleMachine::PickleMachine(std::string_view pickle, std::uint64_t offset, std::string file,
                             std::uint64_t most_bytes)
    : pickle_(pickle), offset_(offset), file_(std::move(file)), most_bytes_(most_bytes) {}

PickleValue PickleMachine::read() {
  for (;;) {
    const auto opcode = static_cast<std::uint8_t>(take(1)[0]);
    if (opcode == kStop) break;
    if (opcode == kProto) {
      const auto protocol = little_endian(1);
      if (protocol < 2 || protocol > 5) {
        fail(fmt::format("protocol {}; known are 2 to 5", protocol));
      }
    } else if (opcode == kFrame) {
      if (little_endian(8) > left()) fail("a frame that does not end");
    } else if (!read_scalar(opcode) && !read_text(opcode) && !read_container(opcode) &&
               !read_memo(opcode) && !read_object(opcode)) {
      --at_;
      fail(fmt::format("opcode {:#04x}, which files of weights do not have", opcode));
    }
  }
  if (left() > 0) fail("bytes after the end of the pickle");
  if (stack_.size() != 1 || !marks_.empty()) fail("the pickle is not one value");
  return stack_[0];
}

std::string_view PickleMachine::text(PickleValue value) const {
  const auto number = static_cast<std::uint64_t>(value.number);
  return pickle_.substr(number >> 32, number & 0xFFFFFFFF);
}

void PickleMachine::charge(std::uint64_t bytes) {
  charged_ += bytes;
  if (charged_ > most_bytes_) {
    throw ResourceExhausted("{}: the values of the pickle at offset {} would take over {} bytes",
                            file_, offset_, most_bytes_);
  }
}

void PickleMachine::fail(std::string_view problem) const {
  throw DataLoss("{}: bad pickle at offset {}: {}", file_, offset_ + at_, problem);
}

std::string_view PickleMachine::take(std::uint64_t count) {
  if (count > left()) fail(fmt::format("truncated: {} bytes where {} are left", count, left()));
  const std::string_view taken = pickle_.substr(at_, count);
  at_ += count;
  return taken;
}

std::uint64_t PickleMachine::little_endian(std::size_t count) {
  const std::string_view raw = take(count);
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(raw[i]);
  return value;
}

std::int64_t PickleMachine::signed_integer(std::uint64_t count) {
  const std::uint64_t value = little_endian(count);
  if (count == 0 || count == 8) return static_cast<std::int64_t>(value);
  const std::uint64_t sign = std::uint64_t{1} << (8 * count - 1);
  return static_cast<std::int64_t>((value ^ sign) - sign);
}

std::string_view PickleMachine::line() {
  const std::size_t length = pickle_.substr(at_, kMostGlobalBytes).find('\n');
  if (length == std::string_view::npos) fail("a name that does not end");
  const std::string_view value = take(length);
  take(1);
  return value;
}

bool PickleMachine::read_scalar(std::uint8_t opcode) {
  switch (opcode) {
    case kNone:
      push({.kind = PickleKind::kNone});
      return true;
    case kTrue:
    case kFalse:
      push({.kind = PickleKind::kBool, .number = opcode == kTrue});
      return true;
    case kInt1:
      push({.kind = PickleKind::kInt, .number = static_cast<std::int64_t>(little_endian(1))});
      return true;
    case kInt2:
      push({.kind = PickleKind::kInt, .number = static_cast<std::int64_t>(little_endian(2))});
      return true;
    case kInt4:
      push({.kind = PickleKind::kInt, .number = signed_integer(4)});
      return true;
    case kLong1: {
      const std::uint64_t count = little_endian(1);
      if (count > 8) {
        take(count);
        push({.kind = PickleKind::kOther});
      } else {
        push({.kind = PickleKind::kInt, .number = signed_integer(count)});
      }
      return true;
    }
    case kFloat:
      take(8);
      push({.kind = PickleKind::kOther});
      return true;
    default:
      return false;
  }
}

bool PickleMachine::read_text(std::uint8_t opcode) {
  switch (opcode) {
    case kShortString:
    case kShortUnicode:
      push_text(take(little_endian(1)));
      return true;
    case kString:
    case kUnicode:
      push_text(take(little_endian(4)));
      return true;
    case kUnicode8:
      push_text(take(little_endian(8)));
      return true;
    case kShortBytes:
      take(little_endian(1));
      break;
    case kBytes:
      take(little_endian(4));
      break;
    case kBytes8:
      take(little_endian(8));
      break;
    default:
      return false;
  }
  push({.kind = PickleKind::kOther});
  return true;
}

bool PickleMachine::read_container(std::uint8_t opcode) {
  switch (opcode) {
    case kMark:
      if (marks_.size() == kMostStacked) fail("more open marks than files of weights have");
      marks_.push_back(stack_.size());
      return true;
    case kPop:
      pop();
      return true;
    case kPopMark:
      pop_to_mark();
      return true;
    case kEmptyDict:
      push_container(PickleKind::kDict, {});
      return true;
    case kDict:
      push_container(PickleKind::kDict, pop_to_mark());
      if (items(stack_.back()).size() % 2 != 0) fail("a key without a value");
      return true;
    case kEmptyList:
    case kEmptySet:
      push_container(PickleKind::kList, {});
      return true;
    case kList:
    case kFrozenSet:
      push_container(PickleKind::kList, pop_to_mark());
      return true;
    case kEmptyTuple:
      push_container(PickleKind::kTuple, {});
      return true;
    case kTuple:
      push_container(PickleKind::kTuple, pop_to_mark());
      return true;
    case kTuple1:
    case kTuple2:
    case kTuple3:
      push_container(PickleKind::kTuple, pop_many(opcode - kTuple1 + std::size_t{1}));
      return true;
    case kSetItem:
      append(pop_many(2), PickleKind::kDict);
      return true;
    case kSetItems:
      append(pop_to_mark(), PickleKind::kDict);
      return true;
    case kAppend:
      append(pop_many(1), PickleKind::kList);
      return true;
    case kAppends:
    case kAddItems:
      append(pop_to_mark(), PickleKind::kList);
      return true;
    default:
      return false;
  }
}

bool PickleMachine::read_memo(std::uint8_t opcode) {
  switch (opcode) {
    case kPut:
      put(little_endian(1));
      return true;
    case kLongPut:
      put(little_endian(4));
      return true;
    case kMemoize:
      put(memo_.size());
      return true;
    case kGet:
      get(little_endian(1));
      return true;
    case kLongGet:
      get(little_endian(4));
      return true;
    default:
      return false;
  }
}

bool PickleMachine::read_object(std::uint8_t opcode) {
  switch (opcode) {
    case kGlobal: {
      const std::string_view module = line();
      push_global(module, line());
      return true;
    }
    case kStackGlobal: {
      const auto names = pop_many(2);
      if (names[0].kind != PickleKind::kText || names[1].kind != PickleKind::kText) {
        fail("the name of a class that is no text");
      }
      push_global(text(names[0]), text(names[1]));
      return true;
    }
    case kReduce:
    case kNewObject:
      call();
      return true;
    case kBuild:
      build();
      return true;
    case kPersistentId:
      push_storage();
      return true;
    default:
      return false;
  }
}

void PickleMachine::push(PickleValue value) {
  if (stack_.size() == kMostStacked) fail("more values at a time than files of weights have");
  stack_.push_back(value);
}

PickleValue PickleMachine::pop() {
  if (stack_.size() == (marks_.empty() ? 0 : marks_.back())) fail("a value is missing");
  const PickleValue value = stack_.back();
  stack_.pop_back();
  return value;
}

void PickleMachine::push_text(std::string_view text, PickleKind kind) {
  const auto offset = static_cast<std::uint64_t>(text.data() - pickle_.data());
  push({.kind = kind, .number = static_cast<std::int64_t>(offset << 32 | text.size())});
}

void PickleMachine::push_container(PickleKind kind, std::vector<PickleValue> items) {
  charge(kGrowth * sizeof(std::vector<PickleValue>) + items.size() * sizeof(PickleValue));
  const auto index = static_cast<std::uint32_t>(containers_.size());
  containers_.push_back(std::move(items));
  push({.kind = kind, .index = index});
}

std::vector<PickleValue> PickleMachine::pop_to_mark() {
  if (marks_.empty()) fail("a mark is missing");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickleValue> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

std::vector<PickleValue> PickleMachine::pop_many(std::size_t count) {
  std::vector<PickleValue> items(count);
  while (count-- > 0) items[count] = pop();
  return items;
}

void PickleMachine::append(std::vector<PickleValue> items, PickleKind kind) {
  if (stack_.empty()) fail("items without a container");
  const PickleValue target = stack_.back();
  // Classes of the user's own behave as dictionaries and lists, too.
  if (target.kind != kind && target.kind != PickleKind::kObject) fail("items without a container");
  if (kind == PickleKind::kDict && items.size() % 2 != 0) fail("a key without a value");
  charge(kGrowth * items.size() * sizeof(PickleValue));
  if (target.kind == PickleKind::kObject) {
    charge(kGrowth * (sizeof(std::vector<PickleValue>) + sizeof(PickleValue)));
    const auto index = static_cast<std::uint32_t>(containers_.size());
    containers_.push_back(std::move(items));
    containers_[target.index].push_back({.kind = kind, .index = index});
    return;
  }
  auto& all = containers_[target.index];
  all.insert(all.end(), items.begin(), items.end());
}

void PickleMachine::put(std::uint64_t index) {
  if (stack_.empty()) fail("nothing to be remembered");
  // Picklers number in order, from 0 or from 1; that bounds the memory a number can ask for.
  if (index > memo_.size() + 1) fail(fmt::format("memo {} out of order", index));
  while (memo_.size() <= index) {
    charge(kGrowth * sizeof(PickleValue));
    memo_.emplace_back();
  }
  memo_[index] = stack_.back();
}

void PickleMachine::get(std::uint64_t index) {
  if (index >= memo_.size()) fail(fmt::format("memo {} was never stored", index));
  push(memo_[index]);
}

void PickleMachine::push_global(std::string_view module, std::string_view name) {
  charge(kGrowth * sizeof(globals_[0]));
  const auto index = static_cast<std::uint32_t>(globals_.size());
  globals_.emplace_back(module, name);
  push({.kind = PickleKind::kGlobal, .index = index});
}

bool PickleMachine::is_global(PickleValue value, std::string_view module,
                              std::string_view name) const {
  return value.kind == PickleKind::kGlobal && globals_[value.index] == std::pair(module, name);
}

// REDUCE and NEWOBJ: a class or function, and its arguments.
void PickleMachine::call() {
  const auto both = pop_many(2);
  const PickleValue callee = both[0];
  if (callee.kind != PickleKind::kGlobal || both[1].kind != PickleKind::kTuple) {
    fail("a call of what is no function");
  }
  const auto& arguments = items(both[1]);
  const auto& [module, name] = globals_[callee.index];
  if (is_global(callee, "collections", "OrderedDict") && arguments.empty()) {
    return push_container(PickleKind::kDict, {});
  }
  // libtorch notes the type of a list or dictionary so.
  if (is_global(callee, "torch.jit._pickle", "restore_type_tag") && !arguments.empty()) {
    return push(arguments[0]);
  }
  if (module == "torch._utils" || module == "torch._tensor") {
    if (name == "_rebuild_tensor" || name == "_rebuild_tensor_v2") {
      return push_tensor(arguments, nullptr);
    }
    if (name == "_rebuild_tensor_v3" && arguments.size() > 6 &&
        arguments[6].kind == PickleKind::kGlobal) {
      const DataType* type = type_named(kDtypes, globals_[arguments[6].index].second);
      if (type == nullptr) {
        throw Unimplemented("{}: tensors of torch.{} are not read; save tensor.float()", file_,
                            globals_[arguments[6].index].second);
      }
      return push_tensor(arguments, type);
    }
    if (name.starts_with("_rebuild_parameter") && !arguments.empty() &&
        arguments[0].kind == PickleKind::kTensor) {
      return push(arguments[0]);
    }
    if (name.starts_with("_rebuild")) {
      throw Unimplemented(
          "{}: at offset {}: {}.{} makes a kind of tensor that is not read; save "
          "tensor.dequantize() "
          "or tensor.to_dense()",
          file_, offset_ + at_, module, name);
    }
  }
  push_container(PickleKind::kObject, {callee, both[1]});
}

// BUILD: an object gets its state. A dictionary's is what PyTorch notes beside it.
void PickleMachine::build() {
  const PickleValue state = pop();
  if (stack_.empty()) fail("a state without an object");
  const PickleValue target = stack_.back();
  if (target.kind != PickleKind::kObject) return;
  charge(kGrowth * sizeof(PickleValue));
  containers_[target.index].push_back(state);
}

// A persistent id: ('storage', torch.FloatStorage, '0', 'cpu', 6).
void PickleMachine::push_storage() {
  const PickleValue id = pop();
  if (id.kind != PickleKind::kTuple) fail("a persistent id that is no tuple");
  const auto& parts = items(id);
  if (parts.size() < 5 || parts[0].kind != PickleKind::kText || text(parts[0]) != "storage" ||
      parts[1].kind != PickleKind::kGlobal || parts[2].kind != PickleKind::kText) {
    fail("a persistent id that is no storage");
  }
  const auto& [module, name] = globals_[parts[1].index];
  const DataType* type =
      module == "torch" || module == "torch.storage" ? type_named(kStorages, name) : nullptr;
  if (type == nullptr) {
    throw Unimplemented("{}: at offset {}: a storage of {}.{}, which is not read", file_,
                        offset_ + at_, module, name);
  }
  const std::int64_t elements = integer_of(parts[4]);
  std::int64_t bytes = 0;
  if (elements < 0 ||
      __builtin_mul_overflow(elements, static_cast<std::int64_t>(element_bytes(*type)), &bytes)) {
    fail(fmt::format("a storage of {} elements", elements));
  }
  charge(kGrowth * sizeof(Storage));
  const auto index = static_cast<std::uint32_t>(storages_.size());
  storages_.push_back({*type, text(parts[2]), bytes});
  push({.kind = PickleKind::kStorage, .index = index});
}

// (storage, offset, sizes, strides, ...). Offsets and strides count elements.
void PickleMachine::push_tensor(const std::vector<PickleValue>& arguments, const DataType* type) {
  if (arguments.size() < 4 || arguments[0].kind != PickleKind::kStorage) {
    fail("a tensor without a storage");
  }
  charge(kGrowth * sizeof(Tensor));
  Tensor tensor{.storage = arguments[0].index,
                .type = type == nullptr ? storages_[arguments[0].index].type : *type,
                .offset = integer_of(arguments[1]),
                .shape = sizes_of(arguments[2]),
                .strides = sizes_of(arguments[3])};
  std::int64_t bytes = 0;
  if (tensor.shape.size() != tensor.strides.size() || tensor.offset < 0 ||
      __builtin_mul_overflow(tensor.offset, static_cast<std::int64_t>(element_bytes(tensor.type)),
                             &bytes)) {
    fail("a tensor with a negative offset or other strides than sizes");
  }
  const auto index = static_cast<std::uint32_t>(tensors_.size());
  tensors_.push_back(std::move(tensor));
  push({.kind = PickleKind::kTensor, .index = index});
}

std::vector<std::int64_t> PickleMachine::sizes_of(PickleValue tuple) {
  if (tuple.kind != PickleKind::kTuple) fail("sizes that are no tuple");
  const auto& numbers = items(tuple);
  if (numbers.size() > kMostTensorDimensions) fail("a tensor of over 64 dimensions");
  charge(numbers.size() * sizeof(std::int64_t));
  std::vector<std::int64_t> sizes;
  sizes.reserve(numbers.size());
  for (const PickleValue number : numbers) sizes.push_back(integer_of(number));
  return sizes;
}

std::int64_t PickleMachine::integer_of(PickleValue value) const {
  if (value.kind != PickleKind::kInt) fail("an integer was expected");
  return value.number;
}

}  // namespace muster
