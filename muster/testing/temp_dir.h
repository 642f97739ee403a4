#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace muster::testing {

/// A fresh folder that is removed with everything in it when this goes out of scope.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

void write_bytes(const std::filesystem::path& path, std::string_view bytes);
std::string read_bytes(const std::filesystem::path& path);
/// Inverts one byte of a file in place.
void flip_byte(const std::filesystem::path& path, std::size_t offset);

}  // namespace muster::testing
