#include <cstring>

#include <fmt/core.h>

#include "muster/data/checkpoint/slice_cover_internal.h"

namespace muster {
namespace {

// Every pair is compared, so the number is bounded; a variable with this many parts is no real one.
constexpr std::size_t kMaxSlices = 8192;

/// Where a part begins and how far it reaches.
struct Rectangle {
  const std::vector<std::int64_t>& start;
  std::vector<std::int64_t> length;
};

bool overlap(const Rectangle& a, const Rectangle& b) {
  for (std::size_t i = 0; i < a.start.size(); ++i) {
    if (a.start[i] + a.length[i] <= b.start[i] || b.start[i] + b.length[i] <= a.start[i]) {
      return false;
    }
  }
  return true;
}

/// Walks over the rows of a part and of the whole side by side.
struct SliceCopy {
  std::span<const std::int64_t> shape;
  const SliceExtents& extents;
  std::vector<std::int64_t> part_shape;
  /// Elements between neighbours in each dimension of the whole, in bytes.
  std::vector<std::size_t> stride;
  /// From this dimension on, the part is contiguous in the whole.
  std::size_t contiguous_from = 0;
  const std::byte* source = nullptr;

  void copy(std::size_t dimension, std::byte* target) {
    if (dimension < shape.size()) {
      target += static_cast<std::size_t>(extents.start[dimension]) * stride[dimension];
    }
    if (dimension == contiguous_from) {
      const std::size_t rows =
          dimension < shape.size() ? static_cast<std::size_t>(part_shape[dimension]) : 1;
      const std::size_t bytes = rows * stride[dimension];
      std::memcpy(target, source, bytes);
      source += bytes;
      return;
    }
    for (std::int64_t i = 0; i < part_shape[dimension]; ++i) {
      copy(dimension + 1, target + static_cast<std::size_t>(i) * stride[dimension]);
    }
  }
};

}  // namespace

std::optional<std::string> why_not_a_cover(std::span<const std::int64_t> shape,
                                           std::span<const SliceExtents> slices) {
  if (slices.size() > kMaxSlices) return fmt::format("{} parts are too many", slices.size());
  std::vector<Rectangle> parts;
  std::int64_t filled = 0;
  for (const SliceExtents& extents : slices) {
    parts.push_back({extents.start, slice_shape(shape, extents)});
    // No overflow: every part is inside the shape, and the first overlap ends the sum.
    filled += element_count(parts.back().length).value_or(0);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      if (overlap(parts[i], parts.back())) {
        return fmt::format("parts {} and {} overlap", i, parts.size() - 1);
      }
    }
  }
  const std::int64_t wanted = element_count(shape).value_or(0);
  if (filled == wanted) return std::nullopt;
  return fmt::format("its parts hold {} of {} elements", filled, wanted);
}

void copy_slice(std::span<const std::byte> part, const SliceExtents& extents,
                std::span<const std::int64_t> shape, std::size_t element_width,
                std::span<std::byte> whole) {
  if (part.empty()) return;
  SliceCopy job{shape, extents, slice_shape(shape, extents), {}, 0, part.data()};
  job.stride.resize(shape.size() + 1, element_width);
  for (std::size_t i = shape.size(); i-- > 0;) {
    job.stride[i] = i + 1 == shape.size()
                        ? element_width
                        : job.stride[i + 1] * static_cast<std::size_t>(shape[i + 1]);
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (job.part_shape[i] != shape[i]) job.contiguous_from = i;
  }
  job.copy(0, whole.data());
}

}  // namespace muster
