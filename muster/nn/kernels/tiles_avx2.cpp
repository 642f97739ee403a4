#include "muster/nn/kernels/tiles_template_internal.h"

namespace muster::kernels {

const Tiles kAvx2Tiles = TileLoops<32, 4, 3, 4, 2>::table("avx2");

}  // namespace muster::kernels
