// Included after the precompiled headers that clang_prelude.h begins. There, what fills a range of
// a std::vector<bool> has another name; this is the one that std::fill() calls. It is declared as
// constexpr, which it cannot be, so only the linker sees it by that name.
#pragma once

#include <vector>

namespace muster::internal {

__attribute__((weak, used)) void fill_bits(
    std::_Bit_iterator first, std::_Bit_iterator last,
    const bool& value) __asm__("_ZSt9__fill_a1St13_Bit_iteratorS_RKb");
void fill_bits(std::_Bit_iterator first, std::_Bit_iterator last, const bool& value) {
  std::__fill_bits(first, last, value);
}

}  // namespace muster::internal
