#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace muster::stores {

/// Takes memory for this many bytes, in huge pages where the system has them to give: touching a
/// range of a file for the first time page by page costs as much as copying it. Memory that
/// SpareBuffers has is taken first.
void reserve_large(std::string& buffer, std::size_t bytes);

/// Memory of large buffers that are no longer needed, for those to come. It exists while a
/// store is read or written; its last owner frees it. Any thread may call it.
class SpareBuffers {
 public:
  /// The process's own, made where there is none.
  static std::shared_ptr<SpareBuffers> shared();

  /// Keeps the memory of a large buffer, as long as there is not much of it.
  void give(std::string buffer);
  /// Makes `buffer` one of at least this many bytes, and empty. False where none is kept.
  bool take(std::string& buffer, std::size_t bytes);

 private:
  std::mutex mutex_;
  std::vector<std::string> kept_;
};

/// A read-only buffer with shared ownership. Its memory goes to the spare buffers.
std::shared_ptr<const std::string> shared_buffer(std::string bytes);

}  // namespace muster::stores
