#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/platform/net/buffer.h"

// How a struct becomes a message: its fields one after the other in the header, numbers as 8
// bytes, little-endian, and texts and lists after their lengths; tensors in the body. Tasks of a
// run are of one kind of machine and of one build; what they check is that a message is whole.
namespace muster::internal {

/// Views of memory of the message's creator, which must live until it is sent.
using Body = std::vector<std::span<const std::byte>>;

/// An encoded message, as it is sent.
struct EncodedMessage {
  std::string header{};
  Body body{};
};

/// Sizes that a receiver expects of tensors (wire/tensors_internal.h).
struct ExpectedTensors;

/// The fields of a type that cannot say so itself, since it is of another module.
template <typename T>
struct ForeignFields;

/// A type says which of its fields travel, in their order:
///   static auto fields(auto& self) { return std::tie(self.step, self.state_json); }
template <typename T>
auto fields_of(T& value) {
  using Plain = std::remove_const_t<T>;
  if constexpr (requires { Plain::fields(value); }) {
    return Plain::fields(value);
  } else {
    return ForeignFields<Plain>::fields(value);
  }
}
template <typename T>
concept HasFields = requires(T& value) {
  {T::fields(value)};
}
|| requires(T& value) { {ForeignFields<T>::fields(value)}; };

class MessageWriter;
class MessageReader;
/// A type with a part in the body. Its `kSizes` is what FieldSizes has of it.
template <typename T>
concept HasBody = requires(const T& value, T& into, MessageWriter& writer, MessageReader& reader) {
  value.write(writer);
  into.read(reader);
};

template <typename T>
struct FieldKind {
  static constexpr bool is_optional = false;
  static constexpr bool is_list = false;
};
template <typename T>
struct FieldKind<std::optional<T>> {
  using Inner = T;
  static constexpr bool is_optional = true;
  static constexpr bool is_list = false;
};
template <typename T>
struct FieldKind<std::vector<T>> {
  using Inner = T;
  static constexpr bool is_optional = false;
  static constexpr bool is_list = true;
};

/// Sizes of a type's messages that follow from its fields.
struct FieldSizes {
  /// A header has no fewer bytes than this.
  std::size_t least_header = 0;
  /// Nor more.
  bool is_fixed = true;
  bool has_body = false;

  constexpr FieldSizes operator+(const FieldSizes& other) const {
    return {least_header + other.least_header, is_fixed && other.is_fixed,
            has_body || other.has_body};
  }
};
template <typename T>
constexpr FieldSizes sizes_of_fields() {
  using Kind = FieldKind<T>;
  if constexpr (std::is_empty_v<T>) {
    return {};
  } else if constexpr (Kind::is_optional || Kind::is_list) {
    return {8, false, sizes_of_fields<typename Kind::Inner>().has_body};
  } else if constexpr (HasBody<T>) {
    return T::kSizes;
  } else if constexpr (HasFields<T>) {
    return []<typename... Fields>(std::type_identity<std::tuple<Fields&...>>) {
      return (FieldSizes{} + ... + sizes_of_fields<std::remove_const_t<Fields>>());
    }(std::type_identity<decltype(fields_of(std::declval<T&>()))>{});
  } else {
    return {8, std::is_arithmetic_v<T> || std::is_enum_v<T>, false};
  }
}

class MessageWriter {
 public:
  template <typename T>
  void put(const T& value) {
    using Kind = FieldKind<T>;
    if constexpr (std::floating_point<T>) {
      put_number(std::bit_cast<std::int64_t>(static_cast<double>(value)));
    } else if constexpr (std::integral<T> || std::is_enum_v<T>) {
      put_number(static_cast<std::int64_t>(value));
    } else if constexpr (std::convertible_to<const T&, std::string_view>) {
      put_text(value);
    } else if constexpr (Kind::is_optional) {
      put_number(value ? 1 : 0);
      if (value) put(*value);
    } else if constexpr (Kind::is_list) {
      put_number(static_cast<std::int64_t>(value.size()));
      for (const auto& one : value) put(one);
    } else if constexpr (HasBody<T>) {
      value.write(*this);
    } else if constexpr (!std::is_empty_v<T>) {
      std::apply([this](const auto&... field) { (this->put(field), ...); }, fields_of(value));
    }
  }

  /// Several pieces of memory that make one. Every one begins at a multiple of 64 bytes, as the
  /// body does.
  void add_piece(std::span<const std::span<const std::byte>> pieces);
  void add_piece(std::span<const std::byte> piece) { add_piece(std::span(&piece, 1)); }
  /// The last part of a body: nothing follows it.
  void add_rest(std::span<const std::byte> rest) { message_.body.push_back(rest); }

  const std::string& header() const { return message_.header; }
  EncodedMessage take() { return std::move(message_); }

 private:
  void put_number(std::int64_t value);
  void put_text(std::string_view text) {
    put_number(static_cast<std::int64_t>(text.size()));
    message_.header += text;
  }

  EncodedMessage message_;
};

/// Throws DataLoss for a message that ends too early, or says that more follows than does: before
/// memory is taken for it.
class MessageReader {
 public:
  MessageReader(std::string_view header, net::Buffer body, const ExpectedTensors& expected);
  explicit MessageReader(std::string_view header);

  template <typename T>
  void read(T& value) {
    using Kind = FieldKind<T>;
    if constexpr (std::floating_point<T>) {
      value = static_cast<T>(std::bit_cast<double>(number()));
    } else if constexpr (std::same_as<T, bool>) {
      value = number() != 0;
    } else if constexpr (std::integral<T> || std::is_enum_v<T>) {
      const std::int64_t wide = number();
      value = static_cast<T>(wide);
      if (static_cast<std::int64_t>(value) != wide) {
        throw DataLoss("a message has the number {} where it cannot be as large", wide);
      }
    } else if constexpr (std::same_as<T, std::string>) {
      value = text();
    } else if constexpr (Kind::is_optional) {
      value.reset();
      if (number() != 0) read(value.emplace());
    } else if constexpr (Kind::is_list) {
      constexpr std::size_t kLeast = sizes_of_fields<typename Kind::Inner>().least_header;
      static_assert(kLeast > 0, "a list of such could be as long as its sender says");
      value.resize(count(kLeast));
      for (auto& one : value) read(one);
    } else if constexpr (HasBody<T>) {
      value.read(*this);
    } else if constexpr (!std::is_empty_v<T>) {
      std::apply([this](auto&... field) { (this->read(field), ...); }, fields_of(value));
    }
  }
  template <typename T>
  T take() {
    T value{};
    read(value);
    return value;
  }

  const ExpectedTensors& expected() const { return expected_; }
  bool at_end() const { return header_.empty(); }

  /// The next piece of the body. Throws when the body holds less.
  std::byte* take_piece(std::uint64_t bytes);
  /// How much of the body is left.
  std::uint64_t body_left() const { return body_->size() - next_; }
  /// The buffer that owns the memory of pieces.
  const std::shared_ptr<net::Buffer>& body() const { return body_; }

 private:
  std::int64_t number();
  std::string_view text() { return take_header(count(1)); }
  /// A count of things that take at least this many bytes of the header each.
  std::size_t count(std::size_t bytes_each);
  std::string_view take_header(std::size_t size);

  std::string_view header_;
  std::shared_ptr<net::Buffer> body_;
  std::size_t next_ = 0;
  const ExpectedTensors& expected_;
};

}  // namespace muster::internal
