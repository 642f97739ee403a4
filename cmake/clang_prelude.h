// Included before every source that clang and clang-tidy read. libtorch 1.13 has vectors of types
// that are not complete yet; clang instantiates the destructor of a vector where it is constexpr,
// as it is in C++20, and refuses that. Here it is not.
#pragma once

#include <memory>
#include <string>

#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_bits  // Declared as constexpr before.
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
