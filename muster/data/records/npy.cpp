#include "muster/data/records/npy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/compression.h"
#include "muster/data/records/sized_payload_internal.h"

namespace muster {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMaxDimensions = 32;
// numpy starts the data at a multiple of this.
constexpr std::size_t kHeaderAlignment = 64;

struct TypeRow {
  NpyType type;
  std::string_view name;
  std::size_t bytes;
};

constexpr TypeRow kTypes[] = {
    {NpyType::kUint8, "|u1", 1},  {NpyType::kInt32, "<i4", 4},  {NpyType::kInt64, "<i8", 8},
    {NpyType::kFloat, "<f4", 4},  {NpyType::kDouble, "<f8", 8}, {NpyType::kBool, "|b1", 1},
    {NpyType::kInt8, "|i1", 1},   {NpyType::kInt16, "<i2", 2},  {NpyType::kUint16, "<u2", 2},
    {NpyType::kUint32, "<u4", 4}, {NpyType::kUint64, "<u8", 8}, {NpyType::kHalf, "<f2", 2},
    {NpyType::kBytes, "|S", 1},   {NpyType::kUnicode, "<U", 4},
};

const TypeRow& row_of(NpyType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row;
  }
  throw Internal("no such .npy type: {}", static_cast<int>(type));
}

bool is_text(NpyType type) { return type == NpyType::kBytes || type == NpyType::kUnicode; }

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

/// Reads the Python dictionary in a header: exactly the three keys that numpy writes, in any order.
class HeaderScanner {
 public:
  HeaderScanner(std::string_view text, std::uint64_t offset, std::string_view name)
      : text_(text), offset_(offset), name_(name) {}

  NpyHeader read() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      read_value(key);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) fail("text behind the dictionary");
    if (!type_ || !fortran_order_ || !has_shape_) fail("descr, fortran_order or shape is missing");
    return {.array = {.type = *type_, .width = width_, .shape = shape_},
            .is_fortran_order = *fortran_order_};
  }

 private:
  void read_value(std::string_view key) {
    if (key == "descr" && !type_) {
      type_ = type();
    } else if (key == "fortran_order" && !fortran_order_) {
      fortran_order_ = boolean();
    } else if (key == "shape" && !has_shape_) {
      shape();
      has_shape_ = true;
    } else {
      fail(fmt::format("unexpected key '{}'", key));
    }
  }

  NpyType type() {
    skip_blanks();
    if (text_.substr(at_).starts_with('[')) {
      throw Unimplemented("{}: a structured dtype; save plain arrays", name_);
    }
    const std::string_view descr = quoted();
    for (const TypeRow& row : kTypes) {
      if (is_text(row.type) ? take_width(descr, row.name) : descr == row.name) return row.type;
    }
    throw Unimplemented("{}: dtype '{}'; known are |u1, <i4, <i8, <f4, <f8 and the like, |S, <U",
                        name_, descr);
  }

  // "|S12": the width after the name of a type of strings.
  bool take_width(std::string_view descr, std::string_view name) {
    if (!descr.starts_with(name)) return false;
    const char* const end = descr.data() + descr.size();
    const auto [rest, error] = std::from_chars(descr.data() + name.size(), end, width_);
    return error == std::errc() && rest == end && width_ > 0;
  }

  void shape() {
    expect('(');
    while (!accept(')')) {
      if (shape_.size() == kMaxDimensions) fail("more than 32 dimensions");
      shape_.push_back(number());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  std::size_t number() {
    skip_blanks();
    std::size_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("bad dimension");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  bool boolean() {
    skip_blanks();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    fail("neither True nor False");
  }

  std::string_view quoted() {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') fail("a string was expected");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string that does not end");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \n", at_), text_.size()); }

  bool accept(char wanted) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) fail(fmt::format("'{}' was expected", wanted));
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw DataLoss("{}: bad .npy header at offset {}: {}", name_, offset_ + at_, what);
  }

  std::string_view text_;
  std::uint64_t offset_;
  std::string_view name_;
  std::size_t at_ = 0;
  std::optional<NpyType> type_{};
  std::size_t width_ = 1;
  std::optional<bool> fortran_order_{};
  bool has_shape_ = false;
  std::vector<std::size_t> shape_{};
};

std::uint64_t data_bytes(const NpyArray& array, std::string_view name) {
  std::uint64_t bytes = size_of(array.type);
  const auto multiply = [&](std::uint64_t by) {
    if (__builtin_mul_overflow(bytes, by, &bytes)) {
      throw DataLoss("{}: the shape in the .npy header holds more than can be counted", name);
    }
  };
  multiply(array.width);
  for (const std::size_t dimension : array.shape) multiply(dimension);
  return bytes;
}

NpyHeader read_header(SizedReader& reader, std::string_view name) {
  const std::string magic = reader.take(kNpyMagic.size(), "the magic number");
  if (magic != kNpyMagic)
    throw DataLoss("{}: not a .npy file: wrong magic number at offset 0", name);
  const std::string version = reader.take(2, "the version");
  const int major = static_cast<std::uint8_t>(version[0]);
  if (major < 1 || major > 3) {
    throw Unimplemented("{}: .npy format {} at offset 6; known are 1 to 3", name, major);
  }
  const std::uint64_t header_bytes =
      little_endian(reader.take(major == 1 ? 2 : 4, "the header length"));
  if (header_bytes > kMaxHeaderBytes) {
    throw DataLoss("{}: .npy header of {} bytes at offset 8; at most {} are read", name,
                   header_bytes, kMaxHeaderBytes);
  }
  const std::uint64_t header_offset = reader.offset();
  const std::string header = reader.take(header_bytes, "the header");
  NpyHeader read = HeaderScanner(header, header_offset, name).read();
  read.data_offset = reader.offset();
  read.data_bytes = data_bytes(read.array, name);
  return read;
}

void append_utf8(std::uint64_t code, std::string& out) {
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    throw DataLoss("the number {} is no character", code);
  }
  const auto put = [&](std::uint64_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

}  // namespace

std::size_t size_of(NpyType type) { return row_of(type).bytes; }

std::string_view name_of(NpyType type) { return row_of(type).name; }

std::size_t NpyArray::item_bytes() const { return items() == 0 ? 0 : data.size() / items(); }

std::string_view NpyArray::item(std::size_t i) const {
  return std::string_view(data).substr(i * item_bytes(), item_bytes());
}

NpyHeader read_npy_header(InputStream& input, std::string_view name) {
  SizedReader reader(input, name);
  return read_header(reader, name);
}

NpyArray read_npy(InputStream& input, std::string_view name) {
  SizedReader reader(input, name);
  NpyHeader header = read_header(reader, name);
  if (header.is_fortran_order) {
    throw Unimplemented("{}: Fortran order; save numpy.ascontiguousarray(a)", name);
  }
  header.array.data = reader.take(header.data_bytes, "the data");
  reader.expect_end();
  return std::move(header.array);
}

NpyArray read_npy(const Path& path) { return read_npy(*open_input(path), path.string()); }

NpyArray parse_npy(std::string_view bytes, std::string_view name) {
  return read_npy(*open_input(bytes, std::string(name)), name);
}

std::vector<std::string> npy_strings(const NpyArray& array) {
  if (!is_text(array.type)) {
    throw InvalidArgument("an array of {} holds no strings", name_of(array.type));
  }
  const std::size_t element = size_of(array.type) * array.width;
  const std::size_t count = element == 0 ? 0 : array.data.size() / element;
  std::vector<std::string> strings;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view bytes = std::string_view(array.data).substr(i * element, element);
    std::string text;
    if (array.type == NpyType::kBytes) {
      text = bytes;
    } else {
      for (std::size_t at = 0; at < bytes.size(); at += 4) {
        append_utf8(little_endian(bytes.substr(at, 4)), text);
      }
    }
    while (!text.empty() && text.back() == '\0') text.pop_back();
    strings.push_back(std::move(text));
  }
  return strings;
}

NpyArray npy_of_strings(std::vector<std::size_t> shape, const std::vector<std::string>& values) {
  NpyArray array{.type = NpyType::kBytes, .shape = std::move(shape)};
  for (const auto& value : values) array.width = std::max(array.width, value.size());
  for (const auto& value : values) {
    array.data += value;
    array.data.append(array.width - value.size(), '\0');
  }
  return array;
}

std::string encode_npy(const NpyArray& array) {
  if (data_bytes(array, "array") != array.data.size()) {
    throw InvalidArgument("an array of {} bytes where its shape asks for {}", array.data.size(),
                          data_bytes(array, "array"));
  }
  std::string shape;
  for (const std::size_t dimension : array.shape) {
    shape += fmt::format("{}{}", shape.empty() ? "" : ", ", dimension);
  }
  if (array.shape.size() == 1) shape += ',';
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   name_of(array.type),
                                   is_text(array.type) ? std::to_string(array.width) : "", shape);
  const std::size_t before = kNpyMagic.size() + 2 + 2;
  const std::size_t unpadded = before + header.size() + 1;
  header.append((kHeaderAlignment - unpadded % kHeaderAlignment) % kHeaderAlignment, ' ');
  header += '\n';
  std::string out(kNpyMagic);
  out += {'\1', '\0'};
  out += static_cast<char>(header.size() & 0xFF);
  out += static_cast<char>(header.size() >> 8);
  return out + header + array.data;
}

}  // namespace muster
