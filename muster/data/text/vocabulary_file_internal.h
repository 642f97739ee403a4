#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster::internal {

/// Vocabularies of 250,000 pieces have 5 MB.
inline constexpr std::uint64_t kMaxVocabularyBytes = std::uint64_t{1} << 28;

/// Result of `make` for the file's bytes; its errors begin with what the file is and its name.
template <typename Make>
auto with_vocabulary_file(std::string_view what, const Path& path, const Make& make) {
  const std::string bytes = read_file(path, kMaxVocabularyBytes);
  try {
    return make(bytes);
  } catch (Error& error) {
    error.add_context(fmt::format("{} {}", what, path.string()));
    throw;
  }
}

}  // namespace muster::internal
