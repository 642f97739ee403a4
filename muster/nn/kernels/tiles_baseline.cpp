// Instructions of every processor of the architecture: NEON on arm64, SSE2 on x86-64.
#include "muster/nn/kernels/tiles_template_internal.h"

namespace muster::kernels {

#if defined(__aarch64__)
const Tiles kBaselineTiles = TileLoops<16, 8, 3, 8, 3>::table("neon");
#else
const Tiles kBaselineTiles = TileLoops<16, 4, 2, 4, 2>::table("baseline");
#endif

}  // namespace muster::kernels
