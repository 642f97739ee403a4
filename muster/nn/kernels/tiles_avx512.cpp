#include "muster/nn/kernels/tiles_template_internal.h"

namespace muster::kernels {

const Tiles kAvx512Tiles = TileLoops<64, 8, 3, 8, 3>::table("avx512");

}  // namespace muster::kernels
