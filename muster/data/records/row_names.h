#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace muster {

/// Where the rows of a batch come from, for errors that are found long after the rows were read.
class RowNames {
 public:
  virtual ~RowNames() = default;

  /// "train.csv line 17".
  virtual std::string of(std::int64_t row) const = 0;
};

using RowNamesPtr = std::shared_ptr<const RowNames>;

}  // namespace muster
