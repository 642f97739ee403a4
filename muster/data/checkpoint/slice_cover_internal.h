#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/data/checkpoint/bundle_index_internal.h"

namespace muster {

/// Nothing when the slices, each of which is inside the shape, fill it without overlap; otherwise
/// what is wrong, in words.
std::optional<std::string> why_not_a_cover(std::span<const std::int64_t> shape,
                                           std::span<const SliceExtents> slices);

/// Copies a part, row-major and dense, to its place in the whole tensor.
void copy_slice(std::span<const std::byte> part, const SliceExtents& extents,
                std::span<const std::int64_t> shape, std::size_t element_width,
                std::span<std::byte> whole);

}  // namespace muster
