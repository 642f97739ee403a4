#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// The lines of a table of messages.
namespace muster::internal {

/// A text as a template argument.
template <std::size_t size>
struct MessageName {
  // NOLINTNEXTLINE(google-explicit-constructor): a literal stands for it.
  constexpr MessageName(const char (&literal)[size]) { std::ranges::copy(literal, text.begin()); }
  constexpr std::string_view view() const { return {text.data(), size - 1}; }

  std::array<char, size> text{};
};

/// Marks a message that is newer than the last release. tests/compatibility keeps a frame of every
/// other one; the next release keeps one of this, and takes the mark away.
inline constexpr bool kUnreleased = true;

/// One line of the table.
template <std::uint32_t number, MessageName name, typename Message, bool unreleased = false>
struct MessageEntry {
  static constexpr std::uint32_t kNumber = number;
  static constexpr std::string_view kName = name.view();
  static constexpr bool kIsReleased = !unreleased;
  using Struct = Message;
};
template <typename... Entries>
struct MessageList {};

}  // namespace muster::internal
