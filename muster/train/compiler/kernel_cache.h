#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::compiler {

/// Compiled kernels on disk, by what they were made of. A file that is damaged, or that cannot be
/// read or written, costs a compilation and a line in the log.
class KernelCache {
 public:
  /// Empty: nothing is kept.
  explicit KernelCache(std::string folder);

  /// $MUSTER_KERNEL_CACHE, or muster/kernels in $XDG_CACHE_HOME or ~/.cache. Empty where the first
  /// is set and empty, or none is set.
  static std::string default_folder();

  /// Code that `key` was compiled to, if it is there.
  std::optional<std::string> find(std::string_view key) const;
  void keep(std::string_view key, std::string_view code) const;

 private:
  std::string file_of(std::string_view key) const;

  std::string folder_;
};

/// Calls `work` for each number below `count` in as many threads as there are processors, and
/// throws what one of them has thrown.
void for_each_in_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace muster::compiler
