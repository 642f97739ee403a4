#include "muster/testing/temp_dir.h"

#include <stdlib.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "muster/base/error.h"

namespace muster::testing {

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "muster-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw_errno(errno, "making a temporary folder");
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;  // A folder left behind in /tmp fails no test.
  std::filesystem::remove_all(path_, ignored);
}

void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw Internal("test could not write {}", path.string());
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw NotFound("test could not open {}", path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void flip_byte(const std::filesystem::path& path, std::size_t offset) {
  std::string bytes = read_bytes(path);
  bytes.at(offset) = static_cast<char>(~bytes.at(offset));
  write_bytes(path, bytes);
}

}  // namespace muster::testing
