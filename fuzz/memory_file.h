#pragma once

#include <string>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster::fuzz {

/// The bytes of one input instead of a mapped file.
class MemoryFile final : public MappedFile {
 public:
  explicit MemoryFile(std::string_view bytes) : bytes_(bytes) {}
  std::string_view bytes() const override { return bytes_; }

 private:
  std::string_view bytes_;
};

}  // namespace muster::fuzz
