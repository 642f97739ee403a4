#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "muster/nn/optim/update_rule_internal.h"

/// Loops over flat float memory on the CPU. All but sum_of_squares work element by element with
/// every operation rounded alone, so a range split in any way gives the same bits, on any
/// processor. Ranges do not overlap.
namespace muster::internal {

/// One step of `count` elements; `slots` are as many as slots_of() names.
void update(const UpdateRule& rule, std::size_t count, float* values, const float* gradients,
            std::span<float* const> slots);

/// One step of the named rows of a table [*, width]; gradients are [rows.size(), width].
void update_rows(const UpdateRule& rule, std::span<const std::int64_t> rows, std::size_t width,
                 float* values, const float* gradients, std::span<float* const> slots);

/// target += factor * source.
void add_scaled(std::size_t count, float factor, const float* source, float* target);
void scale(std::size_t count, float factor, float* values);
/// Into [-limit, limit]; NaN stays NaN.
void clamp(std::size_t count, float limit, float* values);
/// average -= (average - values) * rate.
void move_average(std::size_t count, float rate, const float* values, float* average);
/// The same for each of the rates in turn, which do not rise.
void move_average(std::size_t count, std::span<const float> rates, const float* values,
                  float* average);
void swap_values(std::size_t count, float* first, float* second);

/// In double, in a fixed order that depends on `count` only.
double sum_of_squares(std::size_t count, const float* values);

}  // namespace muster::internal
