#pragma once

// Included once by each of the files tiles_*.cpp, like tiles_template_internal.h: nothing in here
// may have external linkage.
#include <cstdint>

#include "muster/nn/kernels/channel_loops_internal.h"

namespace muster::kernels {
namespace {

/// `kBytes` is the size of a vector register, kRows and kVectors the tile of a weight's gradient.
template <int kBytes, int kRows, int kVectors>
struct ChannelLoopsOf {
  static constexpr int kLanes = kBytes / 4;
  typedef float Vector __attribute__((vector_size(kBytes), aligned(4), may_alias));

  static Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
  static void store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }
  // NaN stays, as in libtorch's relu, and its gradient passes.
  static Vector active(Vector output, Vector value) { return output <= 0.0F ? Vector{} : value; }

  /// Vectors of channels that are gone through together: pixels of 64 bytes are read once.
  static constexpr int kTogether = 2;
  template <int kCount>
  struct Vectors {
    static constexpr int count = kCount;
    Vector at[kCount];

    static Vectors from(const float* place) {
      Vectors result;
#pragma GCC unroll 4
      for (int j = 0; j < kCount; ++j) result.at[j] = load(place + j * kLanes);
      return result;
    }
  };

  // Calls body(vectors of some channels, the first of them).
  template <typename Body>
  static __attribute__((always_inline)) void for_channels(std::int64_t channels, Body body) {
    std::int64_t c = 0;
    for (; c + kTogether * kLanes <= channels; c += kTogether * kLanes) {
      body(Vectors<kTogether>{}, c);
    }
    for (; c < channels; c += kLanes) body(Vectors<1>{}, c);
  }

  // Sums of pixels are in so many chains, that an addition need not wait for the one before it.
  static constexpr int kChains = 4;
  template <int kCount>
  struct Sums {
    Vector of[kChains][kCount] = {};

    void add_to(double* totals) const {
      for (int j = 0; j < kCount; ++j) {
        for (int lane = 0; lane < kLanes; ++lane) {
          double total = 0;
          for (int chain = 0; chain < kChains; ++chain) {
            total += static_cast<double>(of[chain][j][lane]);
          }
          totals[j * kLanes + lane] = total;
        }
      }
    }
  };

  // Calls body(chain, pixel) for pixels in their order, which the chains take in turns.
  template <typename Body>
  static __attribute__((always_inline)) void in_chains(std::int64_t pixels, Body body) {
    std::int64_t i = 0;
    for (; i + kChains <= pixels; i += kChains) {
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain) body(chain, i + chain);
    }
    for (; i < pixels; ++i) body(0, i);
  }

  template <bool kAdds>
  static __attribute__((always_inline)) void normalise_all(const PixelRows& pixels,
                                                           const float* from,
                                                           const ChannelLines& lines,
                                                           const float* addend, bool relu,
                                                           float* to, std::int64_t to_step) {
    for_channels(pixels.channels, [&](auto kind, std::int64_t c) {
      using Kind = decltype(kind);
      const auto mean = Kind::from(lines.mean + c);
      const auto scale = Kind::from(lines.scale + c);
      const auto shift = Kind::from(lines.shift + c);
      std::int64_t place = c;
      for (std::int64_t row = 0; row < pixels.rows; ++row) {
        float* pixel = to + row * to_step + c;
        for (std::int64_t column = 0; column < pixels.width; ++column) {
#pragma GCC unroll 4
          for (int j = 0; j < Kind::count; ++j) {
            const std::int64_t at = place + j * kLanes;
            Vector value = (load(from + at) - mean.at[j]) * scale.at[j] + shift.at[j];
            if constexpr (kAdds) value += load(addend + at);
            store(pixel + j * kLanes, relu ? active(value, value) : value);
          }
          place += pixels.channels;
          pixel += pixels.channels;
        }
      }
    });
  }

  static void normalise(const PixelRows& pixels, const float* from, const ChannelLines& lines,
                        const float* addend, bool relu, float* to, std::int64_t to_step) {
    if (addend == nullptr) {
      normalise_all<false>(pixels, from, lines, addend, relu, to, to_step);
    } else {
      normalise_all<true>(pixels, from, lines, addend, relu, to, to_step);
    }
  }

  static void moments(const PixelRows& pixels, const float* from, double* sums, double* squares) {
    const std::int64_t count = pixels.rows * pixels.width;
    for_channels(pixels.channels, [&](auto kind, std::int64_t c) {
      using Kind = decltype(kind);
      Sums<Kind::count> sum;
      in_chains(count, [&](int chain, std::int64_t i) {
#pragma GCC unroll 4
        for (int j = 0; j < Kind::count; ++j) {
          sum.of[chain][j] += load(from + i * pixels.channels + c + j * kLanes);
        }
      });
      sum.add_to(sums + c);
      Kind center;
      for (int j = 0; j < Kind::count; ++j) {
        for (int lane = 0; lane < kLanes; ++lane) {
          center.at[j][lane] =
              static_cast<float>(sums[c + j * kLanes + lane] / static_cast<double>(count));
        }
      }
      Sums<Kind::count> square;
      in_chains(count, [&](int chain, std::int64_t i) {
#pragma GCC unroll 4
        for (int j = 0; j < Kind::count; ++j) {
          const Vector difference =
              load(from + i * pixels.channels + c + j * kLanes) - center.at[j];
          square.of[chain][j] += difference * difference;
        }
      });
      square.add_to(squares + c);
    });
  }

  static void gradient_sums(const PixelRows& pixels, const float* dy, const float* y,
                            const float* x, const float* mean, double* sums, double* products) {
    for_channels(pixels.channels, [&](auto kind, std::int64_t c) {
      using Kind = decltype(kind);
      const auto center = Kind::from(mean + c);
      Sums<Kind::count> sum, product;
      in_chains(pixels.rows * pixels.width, [&](int chain, std::int64_t i) {
#pragma GCC unroll 4
        for (int j = 0; j < Kind::count; ++j) {
          const std::int64_t at = i * pixels.channels + c + j * kLanes;
          const Vector g = active(load(y + at), load(dy + at));
          sum.of[chain][j] += g;
          product.of[chain][j] += g * (load(x + at) - center.at[j]);
        }
      });
      sum.add_to(sums + c);
      product.add_to(products + c);
    });
  }

  static void through_norm(const PixelRows& pixels, const float* dy, const float* y, const float* x,
                           const ChannelGradientLines& lines, float* frame,
                           std::int64_t frame_step) {
    for_channels(pixels.channels, [&](auto kind, std::int64_t c) {
      using Kind = decltype(kind);
      const auto scale = Kind::from(lines.scale + c);
      const auto offset = Kind::from(lines.offset + c);
      const auto slope = Kind::from(lines.slope + c);
      const auto mean = Kind::from(lines.mean + c);
      std::int64_t place = c;
      for (std::int64_t row = 0; row < pixels.rows; ++row) {
        float* pixel = frame + row * frame_step + c;
        for (std::int64_t column = 0; column < pixels.width; ++column) {
#pragma GCC unroll 4
          for (int j = 0; j < Kind::count; ++j) {
            const std::int64_t at = place + j * kLanes;
            Vector g = load(dy + at);
            if (y != nullptr) g = active(load(y + at), g);
            store(pixel + j * kLanes,
                  scale.at[j] * (g - offset.at[j] - slope.at[j] * (load(x + at) - mean.at[j])));
          }
          place += pixels.channels;
          pixel += pixels.channels;
        }
      }
    });
  }

  static void mask(const PixelRows& pixels, const float* dy, const float* frame,
                   std::int64_t frame_step, const float* x, const float* mean, float* to,
                   double* sums, double* products) {
    for_channels(pixels.channels, [&](auto kind, std::int64_t c) {
      using Kind = decltype(kind);
      const auto center = Kind::from(mean + c);
      Sums<Kind::count> sum, product;
      for (std::int64_t row = 0; row < pixels.rows; ++row) {
        const std::int64_t first = row * pixels.width * pixels.channels + c;
        const float* const active_row = frame + row * frame_step + c;
        in_chains(pixels.width, [&](int chain, std::int64_t i) {
#pragma GCC unroll 4
          for (int j = 0; j < Kind::count; ++j) {
            const std::int64_t step = i * pixels.channels + j * kLanes;
            const Vector g = active(load(active_row + step), load(dy + first + step));
            sum.of[chain][j] += g;
            product.of[chain][j] += g * (load(x + first + step) - center.at[j]);
            store(to + first + step, g);
          }
        });
      }
      sum.add_to(sums + c);
      product.add_to(products + c);
    });
  }

  static void add_masked(std::int64_t floats, const float* from, const float* dy, const float* y,
                         float* to) {
    for (std::int64_t i = 0; i < floats; i += kLanes) {
      store(to + i, load(from + i) + active(load(y + i), load(dy + i)));
    }
  }

  static void factors(const Squares& squares, std::int64_t channels, const float* frame,
                      std::int64_t frame_step, float* to) {
    const std::int64_t step = squares.pitch * channels;
    for (std::int64_t i = 0; i < squares.count; ++i) {
      const std::int64_t square = squares.first + i;
      const float* const corner =
          frame + square / squares.in_row * 2 * frame_step + square % squares.in_row * 2 * channels;
      for (std::int64_t c = 0; c < channels; c += kLanes) {
        Vector rows[4][4];
#pragma GCC unroll 4
        for (int x = 0; x < 4; ++x) {
          const float* const column = corner + x * channels + c;
          const Vector d0 = load(column), d1 = load(column + frame_step);
          const Vector d2 = load(column + 2 * frame_step), d3 = load(column + 3 * frame_step);
          rows[0][x] = d0 - d2;
          rows[1][x] = d1 + d2;
          rows[2][x] = d2 - d1;
          rows[3][x] = d1 - d3;
        }
        float* place = to + i * channels + c;
#pragma GCC unroll 4
        for (int y = 0; y < 4; ++y, place += 4 * step) {
          store(place, rows[y][0] - rows[y][2]);
          store(place + step, rows[y][1] + rows[y][2]);
          store(place + 2 * step, rows[y][2] - rows[y][1]);
          store(place + 3 * step, rows[y][1] - rows[y][3]);
        }
      }
    }
  }

  static void gradient_factors(const Squares& squares, std::int64_t outputs, const float* frame,
                               std::int64_t frame_step, float* to) {
    const std::int64_t step = squares.pitch * outputs;
    for (std::int64_t i = 0; i < squares.count; ++i) {
      const std::int64_t square = squares.first + i;
      const float* const corner =
          frame + square / squares.in_row * 2 * frame_step + square % squares.in_row * 2 * outputs;
      for (std::int64_t o = 0; o < outputs; o += kLanes) {
        Vector rows[4][2];
#pragma GCC unroll 2
        for (int x = 0; x < 2; ++x) {
          const float* const column = corner + x * outputs + o;
          const Vector upper = load(column), lower = load(column + frame_step);
          rows[0][x] = upper;
          rows[1][x] = upper + lower;
          rows[2][x] = upper - lower;
          rows[3][x] = -lower;
        }
        float* place = to + i * outputs + o;
#pragma GCC unroll 4
        for (int y = 0; y < 4; ++y, place += 4 * step) {
          store(place, rows[y][0]);
          store(place + step, rows[y][0] + rows[y][1]);
          store(place + 2 * step, rows[y][0] - rows[y][1]);
          store(place + 3 * step, -rows[y][1]);
        }
      }
    }
  }

  static void results(const Squares& squares, std::int64_t outputs, const float* products,
                      float* to, std::int64_t to_step) {
    const std::int64_t step = squares.pitch * outputs;
    for (std::int64_t i = 0; i < squares.count; ++i) {
      const std::int64_t square = squares.first + i;
      float* const corner =
          to + square / squares.in_row * 2 * to_step + square % squares.in_row * 2 * outputs;
      for (std::int64_t o = 0; o < outputs; o += kLanes) {
        Vector upper[4], lower[4];
#pragma GCC unroll 4
        for (int x = 0; x < 4; ++x) {
          const float* const column = products + x * step + i * outputs + o;
          const Vector m1 = load(column + 4 * step), m2 = load(column + 8 * step);
          upper[x] = load(column) + m1 + m2;
          lower[x] = m1 - m2 - load(column + 12 * step);
        }
        float* const place = corner + o;
        store(place, upper[0] + upper[1] + upper[2]);
        store(place + outputs, upper[1] - upper[2] - upper[3]);
        store(place + to_step, lower[0] + lower[1] + lower[2]);
        store(place + to_step + outputs, lower[1] - lower[2] - lower[3]);
      }
    }
  }

  template <int kWide>
  static void weight_tile(const WeightTile& tile) {
    Vector sums[kRows][kWide] = {};
    for (std::int64_t y = 0; y < tile.rows; ++y) {
      const float* gradient = tile.gradients + y * tile.gradient_row_step;
      const float* image = tile.images + y * tile.image_row_step;
      for (std::int64_t x = 0; x < tile.width; ++x) {
        Vector columns[kWide];
#pragma GCC unroll 8
        for (int j = 0; j < kWide; ++j) columns[j] = load(image + j * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
          for (int j = 0; j < kWide; ++j) sums[i][j] += gradient[i] * columns[j];
        }
        gradient += tile.gradient_step;
        image += tile.image_step;
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kWide; ++j) {
        float* const place = tile.to + i * tile.to_stride + j * kLanes;
        store(place, load(place) + sums[i][j]);
      }
    }
  }

  static constexpr ChannelLoops table() {
    return {.normalise = normalise,
            .moments = moments,
            .gradient_sums = gradient_sums,
            .through_norm = through_norm,
            .mask = mask,
            .add_masked = add_masked,
            .factors = factors,
            .gradient_factors = gradient_factors,
            .results = results,
            .weight_tile = weight_tile<kVectors>,
            .weight_panel = weight_tile<2>,
            .narrow_weight_panel = weight_tile<1>};
  }
};

}  // namespace
}  // namespace muster::kernels
