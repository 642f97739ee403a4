#pragma once

#include <memory>

#include "muster/data/features/features.h"

namespace muster {

namespace internal {
class ColumnBatch;
}

/// A batch on its way through several column sets: what one has computed (the hashes of a feature,
/// the ids of a column that both hold a copy of) the next finds again. Belongs to one thread; the
/// features and the column sets must outlive it.
class ColumnCache {
 public:
  explicit ColumnCache(const Features& features);
  ~ColumnCache();
  ColumnCache(const ColumnCache&) = delete;
  ColumnCache& operator=(const ColumnCache&) = delete;

  internal::ColumnBatch& internal() { return *batch_; }

 private:
  std::unique_ptr<internal::ColumnBatch> batch_;
};

}  // namespace muster
