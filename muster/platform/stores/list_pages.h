#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>

#include "muster/platform/stores/object_api.h"

namespace muster::stores {

/// Limits of one list, far beyond what a folder holds: a store's answers alone must not keep a
/// process busy, or take its memory.
struct ListLimits {
  std::uint64_t most_entries = 10'000'000;
  std::uint64_t most_pages = 100'000;
  /// Pages without entries, one after the other.
  int most_empty_pages = 1000;
};

/// The pages of a list as they come. Throws DataLoss where the list has no end: where it continues
/// at a place where it has continued before, or beyond the limits.
class ListProgress {
 public:
  /// `what` names the list in errors: "listing s3://bucket/folder".
  explicit ListProgress(std::string what, const ListLimits& limits = {})
      : what_(std::move(what)), limits_(limits) {}

  /// Called with the entries of a page, and where the next one begins: empty after the last.
  void add_page(std::size_t entries, const std::string& next);

 private:
  const std::string what_;
  const ListLimits limits_;
  std::uint64_t entries_ = 0;
  std::uint64_t pages_ = 0;
  int empty_pages_ = 0;
  /// Hashes of the places where it has continued.
  std::unordered_set<std::size_t> places_;
};

/// Asks for one page after the other and calls `take` with each. Throws as ListProgress does.
void for_each_page(ObjectApi& api, const ObjectName& prefix, const std::string& delimiter,
                   const std::string& what, const std::function<void(const ObjectPage&)>& take);

}  // namespace muster::stores
