#include <cstdlib>
#include <string_view>

#include "muster/base/error.h"
#include "muster/nn/kernels/tiles_internal.h"

namespace muster::kernels {
namespace {

const Tiles& best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kAvx512Tiles;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2Tiles;
#endif
  return kBaselineTiles;
}

const Tiles& chosen() {
  const char* const wanted = std::getenv("MUSTER_CPU_TILES");
  const Tiles& fastest = best();
  if (wanted == nullptr || std::string_view(wanted) == fastest.name) return fastest;
  if (std::string_view(wanted) == kBaselineTiles.name) return kBaselineTiles;
#if defined(__x86_64__)
  if (std::string_view(wanted) == kAvx2Tiles.name && &fastest != &kBaselineTiles) return kAvx2Tiles;
#endif
  throw InvalidArgument("MUSTER_CPU_TILES: this processor has no `{}`; its best is `{}`", wanted,
                        fastest.name);
}

}  // namespace

const Tiles& tiles() {
  static const Tiles& result = chosen();
  return result;
}

}  // namespace muster::kernels
