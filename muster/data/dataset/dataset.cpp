#include "muster/data/dataset/dataset.h"

namespace muster {

Dataset<std::int64_t> range(std::uint64_t count) {
  return Dataset<std::int64_t>(indexed_source<std::int64_t>(
      "range", count, [](std::uint64_t i) { return static_cast<std::int64_t>(i); }));
}

template class Stage<std::int64_t>;
template class Iterator<std::int64_t>;
template class Dataset<std::int64_t>;
template class Stage<Record>;
template class Iterator<Record>;
template class Dataset<Record>;
template class Stage<std::vector<Record>>;
template class Iterator<std::vector<Record>>;

}  // namespace muster
