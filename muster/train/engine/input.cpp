#include "muster/train/engine/input.h"

namespace muster {

template class Stage<Batch>;
template class Iterator<Batch>;
template class Dataset<Batch>;

}  // namespace muster
