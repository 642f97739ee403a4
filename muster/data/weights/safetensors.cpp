#include "muster/data/weights/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/weights/json_scanner_internal.h"

namespace muster {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
// The header is filled up with blanks, so that elements begin at a multiple of this.
constexpr std::size_t kHeaderMultiple = 8;
constexpr std::size_t kMostDimensions = 64;

struct SafetensorsType {
  std::string_view name;
  DataType type;
};

constexpr SafetensorsType kSafetensorsTypes[] = {
    {"F32", DataType::kFloat},
    {"F16", DataType::kHalf},
    {"BF16", DataType::kBfloat16},
    {"F64", DataType::kDouble},
    {"I64", DataType::kInt64},
    {"I32", DataType::kInt32},
    {"I16", DataType::kInt16},
    {"I8", DataType::kInt8},
    {"U8", DataType::kUint8},
    {"BOOL", DataType::kBool},
    {"U16", DataType::kUint16},
    {"U32", DataType::kUint32},
    {"U64", DataType::kUint64},
    {"C64", DataType::kComplex64},
    {"F8_E4M3", DataType::kFloat8E4m3fn},
    {"F8_E5M2", DataType::kFloat8E5m2},
};

std::optional<DataType> safetensors_type(std::string_view name) {
  for (const SafetensorsType& row : kSafetensorsTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::string_view safetensors_name(const Weight& weight) {
  for (const SafetensorsType& row : kSafetensorsTypes) {
    if (row.type == weight.spec.type) return row.name;
  }
  throw InvalidArgument("safetensors files have no type for tensor '{}', {}", weight.name,
                        to_string(weight.spec));
}

/// Reads the header of one file.
class SafetensorsParser {
 public:
  SafetensorsParser(std::shared_ptr<const MappedFile> file, const Path& path,
                    const WeightLimits& limits)
      : bytes_(file->bytes()),
        path_(path),
        header_bytes_(length_of_header(limits)),
        data_begin_(kLengthBytes + header_bytes_),
        scanner_(bytes_.substr(kLengthBytes, header_bytes_), kLengthBytes, path.string(),
                 "safetensors header"),
        storage_(storage_of(std::move(file))) {}

  Weights parse() {
    Weights weights{.format = WeightFormat::kSafetensors, .path = path_};
    scanner_.object([&](std::string name) {
      if (name == "__metadata__") {
        read_metadata(weights.metadata);
      } else {
        weights.tensors.push_back(read_tensor(std::move(name)));
      }
    });
    scanner_.expect_end();
    check_names(weights.tensors);
    check_places(weights.tensors);
    return weights;
  }

 private:
  std::uint64_t length_of_header(const WeightLimits& limits) const {
    if (bytes_.size() < kLengthBytes + 2) {
      throw DataLoss("{}: not a safetensors file, or cut short: {} bytes", path_.string(),
                     bytes_.size());
    }
    std::uint64_t length = 0;
    for (std::size_t i = kLengthBytes; i-- > 0;) {
      length = length << 8 | static_cast<std::uint8_t>(bytes_[i]);
    }
    if (length > bytes_.size() - kLengthBytes) {
      throw DataLoss(
          "{}: at offset 0: a safetensors header of {} bytes, but {} follow; the file is cut short "
          "or of another format",
          path_.string(), length, bytes_.size() - kLengthBytes);
    }
    if (length > limits.header_bytes) {
      throw ResourceExhausted(
          "{}: at offset 0: a safetensors header of {} bytes; at most {} are read", path_.string(),
          length, limits.header_bytes);
    }
    return length;
  }

  void read_metadata(std::map<std::string, std::string>& metadata) {
    scanner_.object([&](std::string key) {
      std::string value = scanner_.string();
      if (!metadata.emplace(std::move(key), std::move(value)).second) {
        scanner_.fail("a key of __metadata__ that comes twice");
      }
    });
  }

  Weight read_tensor(std::string name) {
    Weight weight{.name = std::move(name), .storage = storage_};
    bool has_type = false, has_shape = false;
    std::optional<std::pair<std::int64_t, std::int64_t>> place;
    const auto once = [&](bool& seen) {
      if (std::exchange(seen, true)) fail(weight, "a key that comes twice");
    };
    scanner_.object([&](const std::string& key) {
      if (key == "dtype") {
        once(has_type);
        weight.spec.type = read_type(weight);
      } else if (key == "shape") {
        once(has_shape);
        read_shape(weight);
      } else if (key == "data_offsets") {
        bool has_place = place.has_value();
        once(has_place);
        place = read_place(weight);
      } else {
        scanner_.skip_value();
      }
    });
    if (!has_type || !has_shape || !place) fail(weight, "dtype, shape or data_offsets is missing");
    set_place(weight, *place);
    return weight;
  }

  DataType read_type(const Weight& weight) {
    const std::string name = scanner_.string();
    const auto type = safetensors_type(name);
    if (!type) {
      throw Unimplemented("{}: tensor '{}' has the dtype {}, which is not known here",
                          path_.string(), weight.name, name);
    }
    return *type;
  }

  void read_shape(Weight& weight) {
    scanner_.array([&] {
      if (weight.spec.shape.size() == kMostDimensions) fail(weight, "over 64 dimensions");
      weight.spec.shape.push_back(scanner_.integer());
    });
  }

  std::pair<std::int64_t, std::int64_t> read_place(const Weight& weight) {
    std::vector<std::int64_t> numbers;
    scanner_.array([&] {
      if (numbers.size() == 2) fail(weight, "data_offsets of more than two numbers");
      numbers.push_back(scanner_.integer());
    });
    if (numbers.size() != 2) fail(weight, "data_offsets of fewer than two numbers");
    return {numbers[0], numbers[1]};
  }

  void set_place(Weight& weight, std::pair<std::int64_t, std::int64_t> place) {
    const auto [begin, end] = place;
    const std::uint64_t size = bytes_.size() - data_begin_;
    if (begin > end || static_cast<std::uint64_t>(end) > size) {
      fail(weight,
           fmt::format("data_offsets [{}, {}] where {} bytes follow the header", begin, end, size));
    }
    const auto count = element_count(weight.spec.shape);
    std::int64_t needed = 0;
    const auto each = static_cast<std::int64_t>(element_bytes(weight.spec.type));
    if (!count || __builtin_mul_overflow(*count, each, &needed) || needed != end - begin) {
      fail(weight, fmt::format("{} in the {} bytes of data_offsets [{}, {}]",
                               to_string(weight.spec), end - begin, begin, end));
    }
    weight.strides = row_major_strides(weight.spec.shape);
    weight.first_byte = data_begin_ + static_cast<std::uint64_t>(begin);
  }

  [[noreturn]] void fail(const Weight& weight, std::string_view problem) const {
    scanner_.fail(fmt::format("tensor '{}': {}", weight.name, problem));
  }

  void check_names(const std::vector<Weight>& tensors) const {
    std::vector<std::string_view> names;
    names.reserve(tensors.size());
    for (const Weight& weight : tensors) names.push_back(weight.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) scanner_.fail(fmt::format("tensor '{}' comes twice", *twice));
  }

  /// The tensors fill what follows the header, one after another.
  void check_places(const std::vector<Weight>& tensors) const {
    std::vector<const Weight*> by_place;
    by_place.reserve(tensors.size());
    for (const Weight& weight : tensors) by_place.push_back(&weight);
    std::sort(by_place.begin(), by_place.end(), [](const Weight* a, const Weight* b) {
      return std::pair(a->first_byte, element_bytes(*a)) <
             std::pair(b->first_byte, element_bytes(*b));
    });
    std::uint64_t end = data_begin_;
    for (const Weight* weight : by_place) {
      if (weight->first_byte != end) {
        throw DataLoss("{}: tensor '{}' begins at offset {}, but the one before it ends at {}",
                       path_.string(), weight->name, weight->first_byte, end);
      }
      end += element_bytes(*weight);
    }
    if (end != bytes_.size()) {
      throw DataLoss("{}: its tensors end at offset {}, but it has {} bytes", path_.string(), end,
                     bytes_.size());
    }
  }

  std::string_view bytes_;
  const Path& path_;
  std::uint64_t header_bytes_;
  std::uint64_t data_begin_;
  JsonScanner scanner_;
  std::shared_ptr<const WeightStorage> storage_;
};

void append_quoted(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

/// Widest elements first, so that each tensor begins at a multiple of its element's size.
std::vector<const Weight*> in_written_order(const std::vector<Weight>& tensors) {
  std::vector<const Weight*> order;
  order.reserve(tensors.size());
  for (const Weight& weight : tensors) order.push_back(&weight);
  std::sort(order.begin(), order.end(), [](const Weight* a, const Weight* b) {
    const std::size_t bytes_a = element_bytes(a->spec.type);
    const std::size_t bytes_b = element_bytes(b->spec.type);
    // Both are in the same vector.
    return bytes_a != bytes_b ? bytes_a > bytes_b : a < b;
  });
  return order;
}

std::string safetensors_header(const std::vector<const Weight*>& order,
                               const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (header.back() != '{') header += ',';
      append_quoted(key, header);
      header += ':';
      append_quoted(value, header);
    }
    header += '}';
  }
  std::uint64_t begin = 0;
  for (const Weight* weight : order) {
    if (header.back() != '{') header += ',';
    append_quoted(weight->name, header);
    const std::uint64_t end = begin + element_bytes(*weight);
    header +=
        fmt::format(R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                    safetensors_name(*weight), fmt::join(weight->spec.shape, ","), begin, end);
    begin = end;
  }
  header += '}';
  header.append((kHeaderMultiple - header.size() % kHeaderMultiple) % kHeaderMultiple, ' ');
  return header;
}

}  // namespace

Weights parse_safetensors(std::shared_ptr<const MappedFile> file, const Path& path,
                          const WeightLimits& limits) {
  return SafetensorsParser(std::move(file), path, limits).parse();
}

void write_safetensors(const Path& path, const std::vector<Weight>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto order = in_written_order(tensors);
  const std::string header = safetensors_header(order, metadata);
  AtomicFile file(path);
  std::string length;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  }
  file.write(length + header);
  for (const Weight* weight : order) {
    const WeightBytes bytes = row_major_bytes(*weight);
    file.write({reinterpret_cast<const char*>(bytes.bytes.data()), bytes.bytes.size()});
  }
  file.commit();
}

}  // namespace muster
