// Included after the precompiled headers that clang_prelude.h begins. There, what fills a range of a
// std::vector<bool> has another name; this is the one that std::fill() calls.
#pragma once

#include <type_traits>
#include <vector>

namespace std {

constexpr void __fill_a1(_Bit_iterator first, _Bit_iterator last, const bool& value) {
  if (!is_constant_evaluated()) __fill_bits(first, last, value);
}

}  // namespace std
