#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "muster/serving/batch/plain_rows_internal.h"
#include "muster/serving/codec/put_element.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::SignatureDef;
using graph::TensorValue;

// As many digits as every whole number of 64 bits has room for.
constexpr std::ptrdiff_t kMostDigits = std::numeric_limits<std::int64_t>::digits10;

// Characters that stand for themselves in a string.
constexpr auto kIsPlain = [] {
  std::array<bool, 256> table{};
  for (int c = 0x20; c < 0x7F; ++c) table[static_cast<std::size_t>(c)] = c != '"' && c != '\\';
  return table;
}();

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// A value of a field.
struct Plain {
  enum class Kind { kInteger, kDouble, kString };
  Kind kind = Kind::kString;
  std::int64_t integer = 0;
  double number = 0;
  std::string_view text{};
};

/// Reads a text from its front. Whatever returns false has not read what it was asked for.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  const char* at() const { return at_; }
  std::string_view rest() const { return {at_, static_cast<std::size_t>(end_ - at_)}; }

  void skip_blanks() {
    while (at_ != end_ && is_blank(*at_)) ++at_;
  }
  bool skip(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool skip(std::string_view text) {
    if (!rest().starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  bool read_string(std::string_view& out) {
    if (!skip('"')) return false;
    const char* const begin = at_;
    while (at_ != end_ && kIsPlain[static_cast<unsigned char>(*at_)]) ++at_;
    out = {begin, static_cast<std::size_t>(at_ - begin)};
    return skip('"');
  }

  bool read_value(Plain& out) {
    if (at_ == end_) return false;
    if (*at_ != '"') return read_number(out);
    out.kind = Plain::Kind::kString;
    return read_string(out.text);
  }

 private:
  bool read_number(Plain& out) {
    const char* const begin = at_;
    const bool is_negative = skip('-');
    const char* const digits = at_;
    std::uint64_t magnitude = 0;
    for (; at_ != end_ && is_digit(*at_); ++at_) {
      // Wraps only for numbers that are not taken.
      magnitude = 10 * magnitude + static_cast<std::uint64_t>(*at_ - '0');
    }
    const std::ptrdiff_t count = at_ - digits;
    if (count == 0 || count > kMostDigits || (*digits == '0' && count > 1)) return false;
    if (at_ != end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) return read_double(begin, out);
    const auto integer = static_cast<std::int64_t>(magnitude);
    out.kind = Plain::Kind::kInteger;
    out.integer = is_negative ? -integer : integer;
    return true;
  }

  // One that continues after its whole part.
  bool read_double(const char* begin, Plain& out) {
    if (skip('.') && !skip_digits()) return false;
    if (skip('e') || skip('E')) {
      if (!skip('+')) skip('-');
      if (!skip_digits()) return false;
    }
    out.kind = Plain::Kind::kDouble;
    const auto [end, error] = std::from_chars(begin, at_, out.number);
    return error == std::errc() && end == at_;
  }

  bool skip_digits() {
    const char* const begin = at_;
    while (at_ != end_ && is_digit(*at_)) ++at_;
    return at_ != begin;
  }

  const char* at_;
  const char* end_;
};

/// False: not taken.
struct PlainReader {
  template <typename T>
  static bool put_float(const Plain& value, TensorValue& out) {
    if (value.kind == Plain::Kind::kString) return false;
    const double number =
        value.kind == Plain::Kind::kDouble ? value.number : static_cast<double>(value.integer);
    append_number(static_cast<T>(number), out);
    return true;
  }

  template <typename T>
  static bool put_integer(const Plain& value, TensorValue& out) {
    if (value.kind != Plain::Kind::kInteger || !std::in_range<T>(value.integer)) return false;
    append_number(static_cast<T>(value.integer), out);
    return true;
  }

  static bool put_bool(const Plain&, TensorValue&) { return false; }

  static bool put_string(const Plain& value, TensorValue& out) {
    if (value.kind != Plain::Kind::kString) return false;
    out.strings.emplace_back(value.text);
    return true;
  }
};

using PutPlain = bool (*)(const Plain& value, TensorValue& out);

/// A field of every line: what stands before its value, and where its value goes.
struct PlainField {
  std::string_view prefix{};
  /// Neither for a key that is no input.
  PutPlain put = nullptr;
  TensorValue* out = nullptr;
  bool is_key = false;
};

/// The first line says what the others look like.
class PlainFiller {
 public:
  PlainFiller(const SignatureDef& signature, std::string_view key_field, std::size_t rows)
      : signature_(signature), key_field_(key_field), rows_(rows) {
    // All at once: fields point at them.
    rows_of_.inputs.reserve(signature.inputs.size());
    for (const auto& [name, info] : signature.inputs) {
      TensorValue& made = rows_of_.inputs.emplace(name, {}).first->second;
      made.dtype = graph::without_ref(info.dtype);
      reserve(made);
    }
  }

  bool add_first(std::string_view line) {
    Scanner scanner(line);
    scanner.skip_blanks();
    const char* prefix = line.data();
    for (char before = '{'; scanner.skip(before); before = ',') {
      std::string_view name;
      scanner.skip_blanks();
      if (!scanner.read_string(name)) return false;
      scanner.skip_blanks();
      if (!scanner.skip(':')) return false;
      scanner.skip_blanks();
      if (!add_field(name, {prefix, static_cast<std::size_t>(scanner.at() - prefix)})) return false;
      if (!add_value(fields_.back(), scanner)) return false;
      prefix = scanner.at();
      scanner.skip_blanks();
    }
    suffix_ = {prefix, static_cast<std::size_t>(line.data() + line.size() - prefix)};
    if (!scanner.skip('}')) return false;
    scanner.skip_blanks();
    const bool has_key = std::ranges::any_of(fields_, &PlainField::is_key);
    const auto inputs = static_cast<std::size_t>(std::ranges::count_if(
        fields_, [](const PlainField& field) { return field.out != nullptr; }));
    return scanner.rest().empty() && inputs == signature_.inputs.size() &&
           has_key != key_field_.empty();
  }

  bool add(std::string_view line) {
    Scanner scanner(line);
    for (const PlainField& field : fields_) {
      if (!scanner.skip(field.prefix) || !add_value(field, scanner)) return false;
    }
    return scanner.rest() == suffix_;
  }

  FastRows take() && {
    for (auto& [name, tensor] : rows_of_.inputs) tensor.shape = {static_cast<std::int64_t>(rows_)};
    return std::move(rows_of_);
  }

 private:
  // Each input once, the key, if there is one, once, and nothing else.
  bool add_field(std::string_view name, std::string_view prefix) {
    PlainField field{.prefix = prefix, .is_key = !key_field_.empty() && name == key_field_};
    const bool is_second_key = field.is_key && std::ranges::any_of(fields_, &PlainField::is_key);
    const auto input = rows_of_.inputs.find(name);
    if (is_second_key || (input == rows_of_.inputs.end() && !field.is_key)) return false;
    if (input != rows_of_.inputs.end()) {
      field.out = &input->second;
      if (std::ranges::count(fields_, field.out, &PlainField::out) > 0) return false;
      field.put = put_of<PlainReader>(field.out->dtype);
    }
    fields_.push_back(field);
    return true;
  }

  void reserve(TensorValue& out) const {
    if (out.dtype == DataType::kString) {
      out.strings.reserve(rows_);
    } else {
      out.bytes.reserve(rows_ * sizeof(double));
    }
  }

  bool add_value(const PlainField& field, Scanner& scanner) {
    Plain value;
    if (!scanner.read_value(value)) return false;
    return (!field.is_key || add_key(value)) &&
           (field.put == nullptr || field.put(value, *field.out));
  }

  bool add_key(const Plain& value) {
    if (value.kind == Plain::Kind::kDouble) return false;  // Digits would change.
    rows_of_.keys.push_back(value.kind == Plain::Kind::kInteger
                                ? std::to_string(value.integer)
                                : '"' + std::string(value.text) + '"');
    return true;
  }

  const SignatureDef& signature_;
  const std::string_view key_field_;
  const std::size_t rows_;
  std::vector<PlainField> fields_{};
  std::string_view suffix_{};
  FastRows rows_of_{};
};

}  // namespace

PlainRows::PlainRows(const SignatureDef& signature, std::string key_field)
    : signature_(signature), key_field_(std::move(key_field)) {
  // Objects with a field b64 may be strings.
  can_read_ = !signature.inputs.empty() && !signature.inputs.contains("b64") &&
              key_field_ != "b64" && std::ranges::all_of(signature.inputs, [](const auto& input) {
                const DataType type = graph::without_ref(input.second.dtype);
                const std::array<std::int64_t, 1> any_rows{2};
                return type != DataType::kBool && put_of<PlainReader>(type) != nullptr &&
                       graph::fits(input.second.shape, any_rows);
              });
}

std::optional<FastRows> PlainRows::read(std::span<const std::string_view> lines) const {
  if (!can_read_ || lines.empty()) return std::nullopt;
  PlainFiller filler(signature_, key_field_, lines.size());
  if (!filler.add_first(lines.front())) return std::nullopt;
  for (const std::string_view line : lines.subspan(1)) {
    if (!filler.add(line)) return std::nullopt;
  }
  return std::move(filler).take();
}

}  // namespace muster::serving
