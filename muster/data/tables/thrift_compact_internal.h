#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::parquet_internal {

/// Types of the compact protocol, as field headers have them.
enum class ThriftType : std::uint8_t {
  kStop = 0,
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12,
};

struct ThriftField {
  std::int32_t id = 0;
  ThriftType type = ThriftType::kStop;
};

/// Reads values of Thrift's compact protocol from bytes. Throws DataLoss, with the offset, for what
/// is cut off, nested too deeply or of another type than its reader wants.
class ThriftReader {
 public:
  explicit ThriftReader(std::string_view bytes) : bytes_(bytes) {}

  /// How many bytes are read.
  std::size_t offset() const { return at_; }

  /// Calls `on_field` with each field of a struct; it reads the value and returns true, or leaves
  /// it and returns false: the value is then skipped.
  template <typename OnField>
  void read_struct(OnField&& on_field) {
    enter();
    std::int32_t last_id = 0;
    while (true) {
      const ThriftField field = read_field_header(last_id);
      if (field.type == ThriftType::kStop) break;
      last_id = field.id;
      if (!on_field(field)) skip(field.type);
    }
    --depth_;
  }
  /// Calls `on_element` for each element of a list, which reads it.
  template <typename OnElement>
  void read_list(const ThriftField& field, ThriftType element, OnElement&& on_element) {
    const std::size_t count = read_list_header(field, element);
    enter();
    for (std::size_t i = 0; i < count; ++i) on_element();
    --depth_;
  }

  bool read_bool(const ThriftField& field);
  std::uint8_t read_byte(const ThriftField& field);
  std::int32_t read_i32(const ThriftField& field);
  std::int64_t read_i64(const ThriftField& field);
  std::string_view read_binary(const ThriftField& field);
  /// A string that is an element of a list.
  std::string_view read_binary_element();
  /// Throws unless the field is a struct, for one that read_struct() comes to.
  void expect(const ThriftField& field, ThriftType type) const;
  [[noreturn]] void fail(std::string_view why) const;

 private:
  ThriftField read_field_header(std::int32_t last_id);
  /// The elements there are: no more than bytes that are left.
  std::size_t read_list_header(const ThriftField& field, ThriftType element);
  std::uint64_t read_varint();
  std::int64_t read_zigzag();
  std::uint8_t read_u8();
  void skip(ThriftType type);
  void skip_container(ThriftType type);
  void enter();

  std::string_view bytes_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace muster::parquet_internal
