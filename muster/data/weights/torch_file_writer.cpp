#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/weights/torch_file.h"
#include "muster/data/weights/zip_writer_internal.h"

namespace muster {
namespace {

struct StorageClass {
  DataType type;
  std::string_view name;
};

constexpr StorageClass kStorageClasses[] = {
    {DataType::kFloat, "FloatStorage"},
    {DataType::kDouble, "DoubleStorage"},
    {DataType::kHalf, "HalfStorage"},
    {DataType::kBfloat16, "BFloat16Storage"},
    {DataType::kInt64, "LongStorage"},
    {DataType::kInt32, "IntStorage"},
    {DataType::kInt16, "ShortStorage"},
    {DataType::kInt8, "CharStorage"},
    {DataType::kUint8, "ByteStorage"},
    {DataType::kBool, "BoolStorage"},
    {DataType::kComplex64, "ComplexFloatStorage"},
    {DataType::kComplex128, "ComplexDoubleStorage"},
};

std::string_view storage_class(const Weight& weight) {
  for (const StorageClass& row : kStorageClasses) {
    if (row.type == weight.spec.type) return row.name;
  }
  throw InvalidArgument("files of PyTorch have no storage for tensor '{}', {}", weight.name,
                        to_string(weight.spec));
}

/// Bytes of one storage that are written as one: those of a tensor, or of several that share some.
struct WrittenRange {
  const Weight* any = nullptr;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::uint64_t end_of(const Weight& weight) {
  return weight.first_byte +
         extent_bytes(weight.spec.type, weight.spec.shape, weight.strides).value_or(0);
}

/// Which range each tensor is in. Only tensors of one type share a storage of PyTorch's.
class StorageRanges {
 public:
  explicit StorageRanges(const std::vector<Weight>& tensors) {
    std::vector<const Weight*> order;
    for (const Weight& weight : tensors) order.push_back(&weight);
    std::sort(order.begin(), order.end(),
              [](const Weight* a, const Weight* b) { return key_of(*a) < key_of(*b); });
    const Weight* last = nullptr;
    for (const Weight* weight : order) {
      const bool continues =
          last != nullptr && last->storage == weight->storage &&
          last->spec.type == weight->spec.type && weight->first_byte < ranges_.back().end &&
          (weight->first_byte - ranges_.back().begin) % element_bytes(weight->spec.type) == 0;
      if (!continues) ranges_.push_back({weight, weight->first_byte, weight->first_byte});
      ranges_.back().end = std::max(ranges_.back().end, end_of(*weight));
      numbers_.emplace(weight, ranges_.size() - 1);
      last = weight;
    }
  }

  const std::vector<WrittenRange>& ranges() const { return ranges_; }
  std::size_t number_of(const Weight& weight) const { return numbers_.at(&weight); }

 private:
  static std::tuple<const void*, int, std::uint64_t> key_of(const Weight& weight) {
    return {weight.storage.get(), static_cast<int>(weight.spec.type), weight.first_byte};
  }

  std::vector<WrittenRange> ranges_;
  std::map<const Weight*, std::size_t> numbers_;
};

/// Writes a pickle of protocol 2: {name: _rebuild_tensor_v2(...), ...}. A plain dictionary, since
/// libtorch's C++ reader takes no OrderedDict.
class StateDictPickle {
 public:
  StateDictPickle() { out_ += "\x80\x02}("; }

  void add(const Weight& weight, std::size_t number, const WrittenRange& range) {
    const auto each = static_cast<std::int64_t>(element_bytes(weight.spec.type));
    text(weight.name);
    global("torch._utils", "_rebuild_tensor_v2");
    out_ += "((";
    text("storage");
    global("torch", storage_class(weight));
    text(std::to_string(number));
    text("cpu");
    integer(static_cast<std::int64_t>(range.end - range.begin) / each);
    out_ += "tQ";
    integer(static_cast<std::int64_t>(weight.first_byte - range.begin) / each);
    tuple(weight.spec.shape);
    tuple(weight.strides);
    out_ += '\x89';
    global("collections", "OrderedDict");
    out_ += ")RtR";
  }

  std::string finish() { return std::move(out_) + "u."; }

 private:
  void global(std::string_view module, std::string_view name) {
    out_ += fmt::format("c{}\n{}\n", module, name);
  }

  void number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xFF);
  }

  void text(std::string_view value) {
    out_ += 'X';
    number(value.size(), 4);
    out_ += value;
  }

  void integer(std::int64_t value) {
    if (value <= INT32_MAX) {
      out_ += 'J';
      number(static_cast<std::uint64_t>(value), 4);
    } else {
      out_ += "\x8A\x08";
      number(static_cast<std::uint64_t>(value), 8);
    }
  }

  void tuple(const std::vector<std::int64_t>& values) {
    out_ += '(';
    for (const std::int64_t value : values) integer(value);
    out_ += 't';
  }

  std::string out_;
};

std::string_view bytes_of(const WeightBytes& all, const WrittenRange& range) {
  const auto part = all.bytes.subspan(range.begin, range.end - range.begin);
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

}  // namespace

void write_torch_file(const Path& path, const std::vector<Weight>& tensors) {
  const StorageRanges storages(tensors);
  StateDictPickle pickle;
  for (const Weight& weight : tensors) {
    const std::size_t number = storages.number_of(weight);
    pickle.add(weight, number, storages.ranges()[number]);
  }
  ZipWriter zip(path);
  zip.add("archive/data.pkl", pickle.finish());
  zip.add("archive/byteorder", "little");
  for (std::size_t i = 0; i < storages.ranges().size(); ++i) {
    const WrittenRange& range = storages.ranges()[i];
    zip.add(fmt::format("archive/data/{}", i), bytes_of(range.any->storage->read(), range));
  }
  zip.add("archive/version", "3\n");
  zip.finish();
}

}  // namespace muster
