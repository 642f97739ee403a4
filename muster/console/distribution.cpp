#include "muster/console/distribution.h"

#include <algorithm>
#include <cmath>

namespace muster::console {

std::array<double, kBandShares.size()> bands_of(const HistogramData& histogram) {
  std::array<double, kBandShares.size()> bands{};
  const std::size_t buckets = std::min(histogram.limits.size(), histogram.counts.size());
  double all = 0;
  for (std::size_t i = 0; i < buckets; ++i) all += std::max(0.0, histogram.counts[i]);
  if (!(all > 0) || !std::isfinite(all)) return bands;
  double below = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < buckets && next < bands.size(); ++i) {
    const double count = std::max(0.0, histogram.counts[i]);
    if (count == 0) continue;
    const double from = std::max(histogram.min, i > 0 ? histogram.limits[i - 1] : histogram.min);
    const double to = std::min(histogram.max, histogram.limits[i]);
    for (; next < bands.size() && kBandShares[next] * all <= below + count; ++next) {
      bands[next] = from + (to - from) * (kBandShares[next] * all - below) / count;
    }
    below += count;
  }
  // Rounding may leave the last ones.
  for (; next < bands.size(); ++next) bands[next] = histogram.max;
  return bands;
}

}  // namespace muster::console
