#pragma once

#include <array>
#include <cstddef>

#include "muster/data/summary/histogram.h"

namespace muster::console {

/// Shares of the values that lie below the bands of a distribution: the extremes, the median and
/// one, one and a half and half a standard deviation of a normal distribution, as TensorBoard has.
inline constexpr std::array<double, 9> kBandShares{0,     0.067, 0.159, 0.309, 0.5,
                                                   0.691, 0.841, 0.933, 1};

/// The values below which these shares of a histogram lie, in their order. Within a bucket values
/// count as evenly spread. All are 0 for a histogram without values.
std::array<double, kBandShares.size()> bands_of(const HistogramData& histogram);

}  // namespace muster::console
