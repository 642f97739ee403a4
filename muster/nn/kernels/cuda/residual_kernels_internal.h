#pragma once

/// The kernels of a residual network's training step. Include a platform first: platform_cuda.cuh
/// or platform_emulated.h.
///
/// Activations and their gradients are bf16, [image, row, column, channel]. A convolution is an
/// implicit product on the tensor cores: rows are pixels, columns output channels, and the sum runs
/// over the 9 taps and the input channels. A block holds a tile of whole image rows with a border
/// of one pixel in shared memory; weights are in registers in the order of the instruction's
/// fragments. Batch norm, ReLU and shortcuts are computed while a tile is loaded, the sums of the
/// next batch norm where a tile is stored: a layer is one kernel in each direction.

#include <cstdint>

namespace muster::residual {

using device::block_count;
using device::block_index;
using device::fused_multiply_add;
using device::high_half;
using device::low_half;
using device::pack;
using device::pack_relu;
using device::sync_threads;
using device::thread_index;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxChannels = 64;
constexpr int kTaps = 9;

// --- Batch norm ------------------------------------------------------------------------------

/// The sums of one batch norm over the batch, in fixed point: adding integers gives the same bits
/// in any order, so blocks need not wait for each other.
struct NormSums {
  long long values[kMaxChannels];
  long long squares[kMaxChannels];
  long long gradients[kMaxChannels];
  /// Sums of gradients times normalised values.
  long long products[kMaxChannels];
  /// Set by a sum that was not finite or left the range; mean and deviation are NaN then.
  int out_of_range;
  int padding[3];
};

struct Norm {
  NormSums* sums;
  const float* gamma;
  const float* beta;
  double inverse_count;
  float epsilon;
};

constexpr float kValueUnit = 16777216.0F;            // 2^24
constexpr float kSquareUnit = 1048576.0F;            // 2^20
constexpr float kGradientUnit = 1099511627776.0F;    // 2^40
constexpr float kFixedLimit = 18014398509481984.0F;  // 2^54: 512 blocks stay inside of 2^63

MUSTER_DEVICE void add_fixed(long long* sum, int* out_of_range, float value, float unit) {
  const float scaled = value * unit;
  if (scaled < kFixedLimit && scaled > -kFixedLimit) {
    device::atomic_add(sum, device::round_to_integer(scaled));
  } else {
    device::atomic_mark(out_of_range);
  }
}

struct Moments {
  float mean;
  float inverse_deviation;
};

MUSTER_DEVICE Moments moments_of(const Norm& norm, int channel) {
  const double mean =
      static_cast<double>(norm.sums->values[channel]) * norm.inverse_count / kValueUnit;
  const double square =
      static_cast<double>(norm.sums->squares[channel]) * norm.inverse_count / kSquareUnit;
  const double variance = square - mean * mean;
  const auto positive = static_cast<float>(variance > 0 ? variance : 0);
  if (norm.sums->out_of_range != 0) return {device::not_a_number(), device::not_a_number()};
  return {static_cast<float>(mean), device::reciprocal_square_root(positive + norm.epsilon)};
}

/// y = scale * x + shift is batch norm; also a gradient's dy = scale * g + slope * x + shift.
struct Line {
  float scale;
  float shift;
};
MUSTER_DEVICE Line forward_line(const Norm& norm, int channel) {
  const Moments moments = moments_of(norm, channel);
  const float scale = norm.gamma[channel] * moments.inverse_deviation;
  return {scale, fused_multiply_add(-moments.mean, scale, norm.beta[channel])};
}

struct Plane {
  float scale;
  float slope;
  float shift;
};
MUSTER_DEVICE Plane backward_plane(const Norm& norm, int channel) {
  const Moments moments = moments_of(norm, channel);
  const double unit = norm.inverse_count / kGradientUnit;
  const auto gradient =
      static_cast<float>(static_cast<double>(norm.sums->gradients[channel]) * unit);
  const auto product = static_cast<float>(static_cast<double>(norm.sums->products[channel]) * unit);
  const float scale = norm.gamma[channel] * moments.inverse_deviation;
  const float slope = -scale * moments.inverse_deviation * product;
  return {scale, slope, fused_multiply_add(-slope, moments.mean, -scale * gradient)};
}

// --- Eight channels at a time ----------------------------------------------------------------

struct Eight {
  float at[8];
};
MUSTER_DEVICE Eight unpack(const uint4& packed) {
  return {{low_half(packed.x), high_half(packed.x), low_half(packed.y), high_half(packed.y),
           low_half(packed.z), high_half(packed.z), low_half(packed.w), high_half(packed.w)}};
}
MUSTER_DEVICE uint4 pack_eight(const Eight& values) {
  return make_uint4(pack(values.at[0], values.at[1]), pack(values.at[2], values.at[3]),
                    pack(values.at[4], values.at[5]), pack(values.at[6], values.at[7]));
}
MUSTER_DEVICE uint4 pack_eight_relu(const Eight& values) {
  return make_uint4(pack_relu(values.at[0], values.at[1]), pack_relu(values.at[2], values.at[3]),
                    pack_relu(values.at[4], values.at[5]), pack_relu(values.at[6], values.at[7]));
}
MUSTER_DEVICE uint4 load_eight(const std::uint16_t* from) {
  return *reinterpret_cast<const uint4*>(from);
}
MUSTER_DEVICE void store_eight(std::uint16_t* to, const uint4& values) {
  *reinterpret_cast<uint4*>(to) = values;
}

struct Four {
  float at[4];
};
MUSTER_DEVICE Four unpack(const uint2& packed) {
  return {{low_half(packed.x), high_half(packed.x), low_half(packed.y), high_half(packed.y)}};
}
MUSTER_DEVICE uint2 load_four(const std::uint16_t* from) {
  return *reinterpret_cast<const uint2*>(from);
}

// --- Tiles -----------------------------------------------------------------------------------

/// Image rows with a border of one pixel in shared memory. A pixel takes 8 channels more than it
/// has, so that eight neighbours are in different banks.
template <int kChannelsValue, int kWidthValue, int kHeightValue, int kRowsValue>
struct Tile {
  static constexpr int kChannels = kChannelsValue;
  static constexpr int kWidth = kWidthValue;    // of the image
  static constexpr int kHeight = kHeightValue;  // of the image
  static constexpr int kRows = kRowsValue;      // of the tile, with its border
  static constexpr int kPixel = kChannels + 8;
  static constexpr int kPitch = (kWidth + 2) * kPixel;
  static constexpr int kBytes = kRows * kPitch * 2;
  static constexpr int kGroups = kChannels / 8;
  static constexpr int kVectors = kRows * kWidth * kGroups;
};

/// A block has two tiles in turn: while some warps still read one, others fill the next.
constexpr int kBuffers = 2;
template <class T>
MUSTER_DEVICE std::uint16_t* buffer_of(std::uint16_t* tiles, int turn) {
  return tiles + turn % kBuffers * (T::kBytes / 2);
}

/// The columns beside the image are zero; loading leaves them alone. The tiles are after each
/// other.
template <class T, int kThreadCount>
MUSTER_DEVICE void clear_sides(std::uint16_t* tile) {
  constexpr int kVectors = kBuffers * T::kRows * 2 * T::kGroups;
  for (int i = thread_index(); i < kVectors; i += kThreadCount) {
    const int group = i % T::kGroups;
    const int side = i / T::kGroups % 2;
    const int row = i / (T::kGroups * 2);
    store_eight(tile + row * T::kPitch + side * (T::kWidth + 1) * T::kPixel + group * 8,
                make_uint4(0, 0, 0, 0));
  }
}

/// The vectors of eight channels that one thread brings into a tile: always the same channels of
/// the same column, some rows apart, so that their addresses differ by constants.
template <class T, int kThreadCount>
struct Share {
  static constexpr int kRowStep = kThreadCount / (T::kGroups * T::kWidth);
  static constexpr int kCount = (T::kRows + kRowStep - 1) / kRowStep;
  static constexpr int kImageStep = kRowStep * T::kWidth * T::kChannels;
  static_assert(kRowStep * T::kGroups * T::kWidth == kThreadCount, "threads take whole rows");

  int group;
  int column;
  int first_row;

  MUSTER_DEVICE Share()
      : group(thread_index() % T::kGroups),
        column(thread_index() / T::kGroups % T::kWidth),
        first_row(thread_index() / (T::kGroups * T::kWidth)) {}
  MUSTER_DEVICE int row(int i) const { return first_row + i * kRowStep; }
  MUSTER_DEVICE bool in_tile(int i) const { return T::kRows % kRowStep == 0 || row(i) < T::kRows; }
  MUSTER_DEVICE std::uint16_t* place(std::uint16_t* tile, int i) const {
    return tile + first_row * T::kPitch + (column + 1) * T::kPixel + group * 8 +
           i * kRowStep * T::kPitch;
  }
};

/// Where a tile lies: its first row, border included, can be -1.
struct Place {
  int image;
  int row;
};

template <class T>
MUSTER_DEVICE bool in_image(int row) {
  return row >= 0 && row < T::kHeight;
}
template <class T>
MUSTER_DEVICE std::int64_t offset_of(int image, int row, int column) {
  return ((static_cast<std::int64_t>(image) * T::kHeight + row) * T::kWidth + column) *
         T::kChannels;
}

/// Offset of a thread's first vector in a tensor; the others follow at S::kImageStep. It can be
/// before the image.
template <class T, int kThreadCount>
MUSTER_DEVICE std::int64_t first_offset(const Share<T, kThreadCount>& share, const Place& place) {
  return offset_of<T>(place.image, place.row + share.first_row, share.column) + share.group * 8;
}

/// Reads one tensor's part of a tile into registers.
template <class T, int kThreadCount>
MUSTER_DEVICE void fetch(uint4 (&raw)[(Share<T, kThreadCount>::kCount)],
                         const std::uint16_t* tensor, const Share<T, kThreadCount>& share,
                         const Place& place) {
  using S = Share<T, kThreadCount>;
  const std::uint16_t* first = tensor + first_offset(share, place);
  MUSTER_UNROLL
  for (int i = 0; i < S::kCount; ++i) {
    raw[i] = make_uint4(0, 0, 0, 0);
    if (share.in_tile(i) && in_image<T>(place.row + share.row(i))) {
      raw[i] = load_eight(first + i * S::kImageStep);
    }
  }
}

// --- The product -----------------------------------------------------------------------------

/// A product of 256 threads: warps share the pixels out, and the channels in sixteens.
template <class TileType, int kOutChannelsValue, int kStrideValue, int kOutWidthValue,
          int kOutRowsValue, int kBlocksValue>
struct Product {
  using T = TileType;
  static constexpr int kIn = T::kChannels;
  static constexpr int kOut = kOutChannelsValue;
  static constexpr int kStride = kStrideValue;
  static constexpr int kOutWidth = kOutWidthValue;
  static constexpr int kOutRows = kOutRowsValue;
  static constexpr int kBlocks = kBlocksValue;  // of a multiprocessor
  static constexpr int kOutHeight = T::kHeight / kStride;
  static constexpr int kTilesOfImage = kOutHeight / kOutRows;
  static constexpr int kWarpsN = kOut / 16;
  static constexpr int kWarpsM = kWarps / kWarpsN;
  static constexpr int kFragments = kOutRows * kOutWidth / 16 / kWarpsM;
  static constexpr int kChunks = kIn / 16;
  static constexpr int kSteps = kTaps * kChunks;
  // Where registers are short, weights are read again for every tile, so that they are free between
  // the product and the next tile.
  static constexpr bool kReload = kBlocks > 1;
  // Fragments side by side in a row of pixels. A warp's fragments are below each other where a row
  // has room for one: what a row is loaded for serves the outputs above and below, too.
  static constexpr int kFragmentsOfRow = kOutWidth / 16;
  static constexpr bool kColumns = kFragmentsOfRow >= 1;
  /// How far a warp's next fragment and a fragment's second half are after the first.
  static constexpr int kFragmentRows = kColumns ? 1 : 16 / kOutWidth;
  static constexpr int kHalfRows = kColumns ? 0 : 8 / kOutWidth;
  static constexpr int kHalfColumns = kColumns ? 8 : 0;
  static constexpr int kFragmentPixels = kFragmentRows * kOutWidth;
  static constexpr int kHalfPixels = 8;
  /// The first pixel of a warp in the tile.
  static MUSTER_DEVICE int first_pixel(int warp) {
    const int part = warp / kWarpsN;
    if constexpr (kColumns) {
      return part / kFragmentsOfRow * kFragments * kOutWidth + part % kFragmentsOfRow * 16;
    } else {
      return part * kFragments * 16;
    }
  }
  static_assert(kFragments * kWarpsM * 16 == kOutRows * kOutWidth, "warps share pixels evenly");
  static_assert(kOutHeight % kOutRows == 0, "tiles share rows evenly");
};

/// The place of a thread in its warp's products.
struct Lane {
  int lane;
  int warp;
  MUSTER_DEVICE Lane() : lane(thread_index() % 32), warp(thread_index() / 32) {}
  /// Pixel and channels that this lane names in the left matrix, whose rows are pixels.
  MUSTER_DEVICE int left_row() const { return lane % 8 + lane / 8 % 2 * 8; }
  MUSTER_DEVICE int left_channel() const { return lane / 16 * 8; }
  /// First of the result's two pixels (the other is 8 after) and of its four channels.
  MUSTER_DEVICE int result_row() const { return lane / 4; }
  MUSTER_DEVICE int result_channel() const { return lane % 4 * 4; }
};

template <class P>
MUSTER_DEVICE void load_weights(uint4 (&weights)[P::kSteps], const uint4* from, const Lane& at) {
  MUSTER_UNROLL
  for (int step = 0; step < P::kSteps; ++step) {
    weights[step] = from[(step * P::kWarpsN + at.warp % P::kWarpsN) * 32 + at.lane];
  }
}

/// sums += one tap's pixels times weights, for one fragment of 16 pixels.
template <class P>
MUSTER_DEVICE void multiply_tap(float (&sums)[2][4], const std::uint16_t* row,
                                const uint4 (&weights)[P::kSteps], int tap) {
  MUSTER_UNROLL
  for (int chunk = 0; chunk < P::kChunks; ++chunk) {
    std::uint32_t left[4];
    device::load_matrices(left, row + chunk * 16);
    const uint4& right = weights[tap * P::kChunks + chunk];
    device::multiply_add(sums[0], left, right.x, right.y);
    device::multiply_add(sums[1], left, right.z, right.w);
  }
}

// Four channels of one pixel: the columns of the weights are ordered so that they lie together.
MUSTER_DEVICE Four result_of(const float (&sums)[2][4], int half) {
  return {{sums[0][half * 2], sums[0][half * 2 + 1], sums[1][half * 2], sums[1][half * 2 + 1]}};
}

/// Two sums a channel, gathered over tiles in registers, then over a block in a fixed order.
struct ChannelSums {
  float first[4] = {0, 0, 0, 0};
  float second[4] = {0, 0, 0, 0};
};

template <class P>
MUSTER_DEVICE void add_to_norm(ChannelSums& sums, float* scratch, const Lane& at, long long* first,
                               long long* second, int* out_of_range, float first_unit,
                               float second_unit) {
  MUSTER_UNROLL
  for (int i = 0; i < 4; ++i) {
    MUSTER_UNROLL
    for (int mask = 4; mask < 32; mask *= 2) {
      sums.first[i] += device::shuffle_xor(sums.first[i], mask);
      sums.second[i] += device::shuffle_xor(sums.second[i], mask);
    }
  }
  const int channel = at.warp % P::kWarpsN * 16 + at.result_channel();
  if (at.lane < 4) {
    MUSTER_UNROLL
    for (int i = 0; i < 4; ++i) {
      scratch[(at.warp / P::kWarpsN * 2 + 0) * P::kOut + channel + i] = sums.first[i];
      scratch[(at.warp / P::kWarpsN * 2 + 1) * P::kOut + channel + i] = sums.second[i];
    }
  }
  sync_threads();
  if (thread_index() < 2 * P::kOut) {
    float total = 0;
    MUSTER_UNROLL
    for (int i = 0; i < P::kWarpsM; ++i) total += scratch[i * 2 * P::kOut + thread_index()];
    const int of = thread_index() % P::kOut;
    if (thread_index() < P::kOut) {
      add_fixed(first + of, out_of_range, total, first_unit);
    } else {
      add_fixed(second + of, out_of_range, total, second_unit);
    }
  }
}

/// Bytes of shared memory after a tile: coefficients of 64 channels, and the sums' scratch.
constexpr int kCoefficientBytes = 4 * kMaxChannels * 4;
constexpr int kScratchBytes = kWarps * 2 * 16 * 4;
template <class P>
constexpr int product_bytes() {
  return kBuffers * P::T::kBytes + kCoefficientBytes + kScratchBytes;
}

// --- Forward ---------------------------------------------------------------------------------

/// Input that a convolution reads.
enum class Source {
  kBytes,       // images of bytes, [image, row, column, 3]
  kFloats,      // images of floats
  kNormalised,  // relu(norm(values)), for the second convolution of a unit
  kStem,        // the same, and keeps it as the first unit's input
  kUnit,        // relu(norm(values) + shortcut), kept as the next unit's input
  kPooledUnit,  // the same where the shortcut is pooled and padded with channels
};

struct ForwardArguments {
  const uint4* weights;
  const void* input;
  const std::uint16_t* shortcut;
  std::uint16_t* kept;
  std::uint16_t* output;
  Norm norm;  // of the input
  NormSums* sums;
  int tiles;
};

template <Source kSource>
constexpr bool kIsImage = kSource == Source::kBytes || kSource == Source::kFloats;
template <Source kSource>
constexpr bool kIsKept =
    kSource == Source::kStem || kSource == Source::kUnit || kSource == Source::kPooledUnit;

template <Source kSource>
MUSTER_DEVICE float standardised(const void* images, std::int64_t index) {
  const float pixel = kSource == Source::kBytes
                          ? static_cast<float>(static_cast<const std::uint8_t*>(images)[index])
                          : static_cast<const float*>(images)[index];
  return fused_multiply_add(pixel, 1.0F / 128, -1.0F);
}

/// Three colours instead of sixteen channels.
template <Source kSource, class T>
MUSTER_DEVICE uint4 image_vector(const void* images, const Place& place, int row, int column,
                                 int group) {
  if (group != 0) return make_uint4(0, 0, 0, 0);
  const std::int64_t pixel = offset_of<T>(place.image, row, column) / T::kChannels * 3;
  return make_uint4(
      pack(standardised<kSource>(images, pixel), standardised<kSource>(images, pixel + 1)),
      pack(standardised<kSource>(images, pixel + 2), 0), 0, 0);
}

/// The mean of four pixels of an image twice as large with half the channels, which are in the
/// middle.
template <class T>
MUSTER_DEVICE Eight pooled_shortcut(const std::uint16_t* shortcut, int image, int row, int column,
                                    int group) {
  constexpr int kFrom = T::kChannels / 2;
  Eight mean{};
  const int channel = group * 8 - T::kChannels / 4;
  if (channel < 0 || channel >= kFrom) return mean;
  MUSTER_UNROLL
  for (int i = 0; i < 4; ++i) {
    const std::int64_t pixel =
        (static_cast<std::int64_t>(image) * T::kHeight * 2 + row * 2 + i / 2) * T::kWidth * 2 +
        column * 2 + i % 2;
    const Eight part = unpack(load_eight(shortcut + pixel * kFrom + channel));
    MUSTER_UNROLL
    for (int j = 0; j < 8; ++j) mean.at[j] += part.at[j];
  }
  MUSTER_UNROLL
  for (int j = 0; j < 8; ++j) mean.at[j] *= 0.25F;
  return mean;
}

/// The lines of a thread's eight channels.
struct EightLines {
  float scale[8];
  float shift[8];
};
MUSTER_DEVICE EightLines lines_of(const float* coefficients, int group) {
  EightLines lines;
  MUSTER_UNROLL
  for (int i = 0; i < 8; ++i) {
    lines.scale[i] = coefficients[group * 8 + i];
    lines.shift[i] = coefficients[kMaxChannels + group * 8 + i];
  }
  return lines;
}
template <int kChannels>
MUSTER_DEVICE void prepare_lines(float* coefficients, const Norm& norm) {
  if (thread_index() >= kChannels) return;
  const Line line = forward_line(norm, thread_index());
  coefficients[thread_index()] = line.scale;
  coefficients[kMaxChannels + thread_index()] = line.shift;
}

/// Brings relu(norm(raw) + shortcut), or images, into the tile.
template <Source kSource, class P>
struct ForwardLoader {
  using T = typename P::T;
  using S = Share<T, kThreads>;
  const ForwardArguments& arguments;
  S share{};
  uint4 raw[S::kCount];
  uint4 shortcut[S::kCount];

  MUSTER_DEVICE explicit ForwardLoader(const ForwardArguments& given) : arguments(given) {}

  MUSTER_DEVICE void fetch_tile(const Place& place) {
    if constexpr (!kIsImage<kSource>) {
      fetch<T, kThreads>(raw, static_cast<const std::uint16_t*>(arguments.input), share, place);
    }
    if constexpr (kSource == Source::kUnit) {
      fetch<T, kThreads>(shortcut, arguments.shortcut, share, place);
    }
  }

  MUSTER_DEVICE uint4 activation(int i, const EightLines& lines, const Place& place) const {
    const int row = place.row + share.row(i);
    Eight values = unpack(raw[i]);
    Eight more{};
    if constexpr (kSource == Source::kUnit) more = unpack(shortcut[i]);
    if constexpr (kSource == Source::kPooledUnit) {
      more = pooled_shortcut<T>(arguments.shortcut, place.image, row, share.column, share.group);
    }
    MUSTER_UNROLL
    for (int j = 0; j < 8; ++j) {
      values.at[j] = fused_multiply_add(values.at[j], lines.scale[j], lines.shift[j]) + more.at[j];
    }
    return pack_eight_relu(values);
  }

  MUSTER_DEVICE void store_tile(std::uint16_t* tile, const float* coefficients,
                                const Place& place) const {
    EightLines lines;
    if constexpr (!kIsImage<kSource>) lines = lines_of(coefficients, share.group);
    MUSTER_UNROLL
    for (int i = 0; i < S::kCount; ++i) {
      if (!share.in_tile(i)) continue;
      const int row = place.row + share.row(i);
      uint4 vector = make_uint4(0, 0, 0, 0);
      if (in_image<T>(row)) {
        if constexpr (kIsImage<kSource>) {
          vector = image_vector<kSource, T>(arguments.input, place, row, share.column, share.group);
        } else {
          vector = activation(i, lines, place);
        }
        // The first row is border, and so is what is after the tile's own rows.
        const bool own = share.row(i) >= 1 && share.row(i) <= P::kOutRows * P::kStride;
        if (kIsKept<kSource> && own) {
          store_eight(arguments.kept + first_offset(share, place) + i * S::kImageStep, vector);
        }
      }
      store_eight(share.place(tile, i), vector);
    }
  }
};

template <class P>
MUSTER_DEVICE Place place_of(int tile) {
  return {tile / P::kTilesOfImage, tile % P::kTilesOfImage * P::kOutRows * P::kStride - 1};
}

/// Where a thread's results go. The others are after the first at constant steps.
template <class P>
struct Target {
  std::int64_t first;
  MUSTER_DEVICE Target(int tile, const Lane& at) {
    const std::int64_t row = static_cast<std::int64_t>(tile / P::kTilesOfImage) * P::kOutHeight +
                             tile % P::kTilesOfImage * P::kOutRows;
    first = (row * P::kOutWidth + P::first_pixel(at.warp) + at.result_row()) * P::kOut +
            at.warp % P::kWarpsN * 16 + at.result_channel();
  }
  static MUSTER_DEVICE int step(int fragment, int half) {
    return (fragment * P::kFragmentPixels + half * P::kHalfPixels) * P::kOut;
  }
};

/// Stores a tile's results and adds them to the sums of the norm after it.
template <class P>
MUSTER_DEVICE void store_results(const float (&sums)[P::kFragments][2][4], std::uint16_t* output,
                                 ChannelSums& channel_sums, const Lane& at, int tile) {
  std::uint16_t* const first = output + Target<P>(tile, at).first;
  MUSTER_UNROLL
  for (int i = 0; i < P::kFragments * 2; ++i) {
    const Four result = result_of(sums[i / 2], i % 2);
    const uint2 rounded =
        make_uint2(pack(result.at[0], result.at[1]), pack(result.at[2], result.at[3]));
    *reinterpret_cast<uint2*>(first + Target<P>::step(i / 2, i % 2)) = rounded;
    const Four kept = unpack(rounded);
    MUSTER_UNROLL
    for (int j = 0; j < 4; ++j) {
      channel_sums.first[j] += kept.at[j];
      channel_sums.second[j] = fused_multiply_add(kept.at[j], kept.at[j], channel_sums.second[j]);
    }
  }
}

/// Where a lane's first fragment begins in the tile; the next is kLift further.
template <class P>
constexpr int kLift = P::kFragmentRows* P::kStride* P::T::kPitch;
template <class P>
MUSTER_DEVICE const std::uint16_t* first_left_row(const std::uint16_t* tile, const Lane& at) {
  const int pixel = P::first_pixel(at.warp) + at.left_row();
  return tile + pixel / P::kOutWidth * P::kStride * P::T::kPitch +
         pixel % P::kOutWidth * P::kStride * P::T::kPixel + at.left_channel();
}

/// Every row of the tile that a column of fragments needs is loaded once for each of the three taps
/// in a row, and multiplied for up to three rows of outputs.
template <class P>
MUSTER_DEVICE void multiply_column(float (&sums)[P::kFragments][2][4], const std::uint16_t* row,
                                   const uint4 (&weights)[P::kSteps]) {
  using T = typename P::T;
  MUSTER_UNROLL
  for (int line = 0; line < P::kFragments + 2; ++line) {
    MUSTER_UNROLL
    for (int i = 0; i < 3 * P::kChunks; ++i) {
      const int column = i / P::kChunks;
      const int chunk = i % P::kChunks;
      std::uint32_t left[4];
      device::load_matrices(left, row + line * T::kPitch + column * T::kPixel + chunk * 16);
      MUSTER_UNROLL
      for (int tap_row = 0; tap_row < 3; ++tap_row) {
        const int fragment = line - tap_row;
        if (fragment < 0 || fragment >= P::kFragments) continue;
        const uint4& right = weights[(tap_row * 3 + column) * P::kChunks + chunk];
        device::multiply_add(sums[fragment][0], left, right.x, right.y);
        device::multiply_add(sums[fragment][1], left, right.z, right.w);
      }
    }
  }
}

template <class P>
MUSTER_DEVICE void multiply_tile(float (&sums)[P::kFragments][2][4], const std::uint16_t* tile,
                                 const uint4 (&weights)[P::kSteps], const Lane& at) {
  using T = typename P::T;
  const std::uint16_t* const row = first_left_row<P>(tile, at);
  MUSTER_UNROLL
  for (int i = 0; i < P::kFragments * 8; ++i) sums[i / 8][i / 4 % 2][i % 4] = 0;
  if constexpr (P::kColumns && P::kStride == 1) {
    multiply_column<P>(sums, row, weights);
  } else {
    MUSTER_UNROLL
    for (int tap = 0; tap < kTaps; ++tap) {
      MUSTER_UNROLL
      for (int fragment = 0; fragment < P::kFragments; ++fragment) {
        multiply_tap<P>(sums[fragment],
                        row + fragment * kLift<P> + tap / 3 * T::kPitch + tap % 3 * T::kPixel,
                        weights, tap);
      }
    }
  }
}

template <class P, Source kSource>
MUSTER_KERNEL(kThreads, P::kBlocks)
forward_convolution(ForwardArguments arguments) {
  using T = typename P::T;
  auto* tiles = reinterpret_cast<std::uint16_t*>(device::shared_memory());
  auto* coefficients = reinterpret_cast<float*>(device::shared_memory() + kBuffers * T::kBytes);
  auto* scratch = coefficients + 4 * kMaxChannels;
  const Lane at;
  uint4 weights[P::kSteps];
  load_weights<P>(weights, arguments.weights, at);
  clear_sides<T, kThreads>(tiles);
  device::wait_for_previous_kernel();
  device::let_next_kernel_begin();

  ForwardLoader<kSource, P> loader(arguments);
  int index = block_index();
  loader.fetch_tile(place_of<P>(index));
  if constexpr (!kIsImage<kSource>) {
    prepare_lines<P::kIn>(coefficients, arguments.norm);
    sync_threads();
  }
  ChannelSums channel_sums;
  for (int turn = 0; index < arguments.tiles; index += block_count(), ++turn) {
    std::uint16_t* const tile = buffer_of<T>(tiles, turn);
    loader.store_tile(tile, coefficients, place_of<P>(index));
    sync_threads();
    // Ahead of the product where there are registers for it.
    const bool more = index + block_count() < arguments.tiles;
    constexpr bool kAhead = kSource != Source::kUnit || P::kBlocks == 1;
    if (kAhead && more) loader.fetch_tile(place_of<P>(index + block_count()));
    float sums[P::kFragments][2][4];
    multiply_tile<P>(sums, tile, weights, at);
    store_results<P>(sums, arguments.output, channel_sums, at, index);
    if (P::kReload && more) load_weights<P>(weights, arguments.weights, at);
    if (!kAhead && more) loader.fetch_tile(place_of<P>(index + block_count()));
  }
  add_to_norm<P>(channel_sums, scratch, at, arguments.sums->values, arguments.sums->squares,
                 &arguments.sums->out_of_range, kValueUnit, kSquareUnit);
}

// --- Backward, towards the input -------------------------------------------------------------

/// Where a convolution's input gradient goes on to.
enum class Below {
  kInside,  // the unit's own first norm: masked where relu(norm(values)) is 0
  kUnit,    // the unit below: the shortcut's gradient is added, and masked where its output is 0
  kPooled,  // the same through a pooled shortcut; the convolution has stride 2
};

struct BackwardArguments {
  const uint4* weights;
  const std::uint16_t* gradient;  // of the norm's output, masked by its ReLU
  const std::uint16_t* values;    // the norm's input
  Norm norm;
  std::uint16_t* output;          // the gradient of the norm below
  const std::uint16_t* below;     // its input
  const std::uint16_t* mask;      // the output of the unit below
  const std::uint16_t* shortcut;  // the gradient that the shortcut passes on
  Norm below_norm;
  int tiles;
};

struct EightPlanes {
  float scale[8];
  float slope[8];
  float shift[8];
};
MUSTER_DEVICE EightPlanes planes_of(const float* coefficients, int group) {
  EightPlanes planes;
  MUSTER_UNROLL
  for (int i = 0; i < 8; ++i) {
    planes.scale[i] = coefficients[group * 8 + i];
    planes.slope[i] = coefficients[kMaxChannels + group * 8 + i];
    planes.shift[i] = coefficients[2 * kMaxChannels + group * 8 + i];
  }
  return planes;
}
template <int kChannels>
MUSTER_DEVICE void prepare_planes(float* coefficients, const Norm& norm) {
  if (thread_index() >= kChannels) return;
  const Plane plane = backward_plane(norm, thread_index());
  coefficients[thread_index()] = plane.scale;
  coefficients[kMaxChannels + thread_index()] = plane.slope;
  coefficients[2 * kMaxChannels + thread_index()] = plane.shift;
}
MUSTER_DEVICE uint4 through_norm(const uint4& gradient, const uint4& values,
                                 const EightPlanes& planes) {
  Eight result = unpack(gradient);
  const Eight at = unpack(values);
  MUSTER_UNROLL
  for (int i = 0; i < 8; ++i) {
    result.at[i] =
        fused_multiply_add(result.at[i], planes.scale[i],
                           fused_multiply_add(at.at[i], planes.slope[i], planes.shift[i]));
  }
  return pack_eight(result);
}

/// Brings the gradient of a convolution's output into the tile: that of the norm after it, through
/// the norm.
template <class T, int kThreadCount>
struct GradientLoader {
  using S = Share<T, kThreadCount>;
  S share{};
  uint4 gradient[S::kCount];
  uint4 values[S::kCount];

  MUSTER_DEVICE void fetch_tile(const std::uint16_t* gradients, const std::uint16_t* inputs,
                                const Place& place) {
    fetch<T, kThreadCount>(gradient, gradients, share, place);
    fetch<T, kThreadCount>(values, inputs, share, place);
  }
  MUSTER_DEVICE void store_tile(std::uint16_t* tile, const float* coefficients,
                                const Place& place) const {
    const EightPlanes planes = planes_of(coefficients, share.group);
    MUSTER_UNROLL
    for (int i = 0; i < S::kCount; ++i) {
      if (!share.in_tile(i)) continue;
      const bool inside = in_image<T>(place.row + share.row(i));
      store_eight(share.place(tile, i),
                  inside ? through_norm(gradient[i], values[i], planes) : make_uint4(0, 0, 0, 0));
    }
  }
};

/// Values of the norm below for the channels of a thread's results.
struct BelowLines {
  float mean[4];
  float inverse_deviation[4];
  float scale[4];
  float shift[4];
};
MUSTER_DEVICE BelowLines below_lines(const float* coefficients, int channel) {
  BelowLines lines;
  MUSTER_UNROLL
  for (int i = 0; i < 4; ++i) {
    lines.mean[i] = coefficients[channel + i];
    lines.inverse_deviation[i] = coefficients[kMaxChannels + channel + i];
    lines.scale[i] = coefficients[2 * kMaxChannels + channel + i];
    lines.shift[i] = coefficients[3 * kMaxChannels + channel + i];
  }
  return lines;
}
template <int kChannels>
MUSTER_DEVICE void prepare_below(float* coefficients, const Norm& norm) {
  // By other threads than those that prepare the planes.
  const int channel = thread_index() - kThreads / 2;
  if (channel < 0 || channel >= kChannels) return;
  const Moments moments = moments_of(norm, channel);
  const Line line = forward_line(norm, channel);
  coefficients[channel] = moments.mean;
  coefficients[kMaxChannels + channel] = moments.inverse_deviation;
  coefficients[2 * kMaxChannels + channel] = line.scale;
  coefficients[3 * kMaxChannels + channel] = line.shift;
}

/// The tensors that meet a thread's results of one fragment, read ahead of the product.
template <Below kBelow>
struct Meeting {
  uint2 below[2];
  uint2 mask[2];
  uint2 shortcut[2];
};

template <Below kBelow>
MUSTER_DEVICE void meet(Meeting<kBelow>& meeting, const BackwardArguments& arguments,
                        std::int64_t first, int step, int half) {
  meeting.below[half] = load_four(arguments.below + first + step);
  if constexpr (kBelow != Below::kInside)
    meeting.mask[half] = load_four(arguments.mask + first + step);
  if constexpr (kBelow == Below::kUnit) {
    meeting.shortcut[half] = load_four(arguments.shortcut + first + step);
  }
}

/// Adds the shortcut's gradient, masks, stores, and adds to the sums of the norm below.
template <Below kBelow>
MUSTER_DEVICE void pass_on(Four result, const Meeting<kBelow>& meeting, int half,
                           std::uint16_t* output, const BelowLines& lines,
                           ChannelSums& channel_sums) {
  const Four below = unpack(meeting.below[half]);
  Four mask{};
  if constexpr (kBelow == Below::kInside) {
    MUSTER_UNROLL
    for (int i = 0; i < 4; ++i) {
      mask.at[i] = fused_multiply_add(below.at[i], lines.scale[i], lines.shift[i]);
    }
  } else {
    mask = unpack(meeting.mask[half]);
    const Four shortcut = unpack(meeting.shortcut[half]);
    MUSTER_UNROLL
    for (int i = 0; i < 4; ++i) result.at[i] += shortcut.at[i];
  }
  MUSTER_UNROLL
  for (int i = 0; i < 4; ++i) result.at[i] = mask.at[i] > 0 ? result.at[i] : 0.0F;
  const uint2 rounded =
      make_uint2(pack(result.at[0], result.at[1]), pack(result.at[2], result.at[3]));
  *reinterpret_cast<uint2*>(output) = rounded;
  const Four kept = unpack(rounded);
  MUSTER_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float normalised = (below.at[i] - lines.mean[i]) * lines.inverse_deviation[i];
    channel_sums.first[i] += kept.at[i];
    channel_sums.second[i] = fused_multiply_add(kept.at[i], normalised, channel_sums.second[i]);
  }
}

template <class P>
constexpr int backward_bytes() {
  return kBuffers * P::T::kBytes + 2 * kCoefficientBytes + kScratchBytes;
}

template <class P, Below kBelow>
MUSTER_KERNEL(kThreads, P::kBlocks)
backward_convolution(BackwardArguments arguments) {
  using T = typename P::T;
  auto* tiles = reinterpret_cast<std::uint16_t*>(device::shared_memory());
  auto* coefficients = reinterpret_cast<float*>(device::shared_memory() + kBuffers * T::kBytes);
  auto* below_coefficients = coefficients + 4 * kMaxChannels;
  auto* scratch = below_coefficients + 4 * kMaxChannels;
  const Lane at;
  uint4 weights[P::kSteps];
  load_weights<P>(weights, arguments.weights, at);
  clear_sides<T, kThreads>(tiles);
  device::wait_for_previous_kernel();
  device::let_next_kernel_begin();

  GradientLoader<T, kThreads> loader;
  int index = block_index();
  loader.fetch_tile(arguments.gradient, arguments.values, place_of<P>(index));
  prepare_planes<P::kIn>(coefficients, arguments.norm);
  prepare_below<P::kOut>(below_coefficients, arguments.below_norm);
  sync_threads();
  ChannelSums channel_sums;
  for (int turn = 0; index < arguments.tiles; index += block_count(), ++turn) {
    std::uint16_t* const tile = buffer_of<T>(tiles, turn);
    loader.store_tile(tile, coefficients, place_of<P>(index));
    const std::int64_t target = Target<P>(index, at).first;
    sync_threads();
    // The values that the results meet and the next tile are read ahead of the product, where
    // registers are many; else half of those values, and the rest after the product.
    constexpr bool kAhead = P::kBlocks == 1;
    constexpr int kFirst = kAhead ? P::kFragments : (P::kFragments + 1) / 2;
    const bool more = index + block_count() < arguments.tiles;
    Meeting<kBelow> meetings[P::kFragments];
    MUSTER_UNROLL
    for (int i = 0; i < kFirst * 2; ++i) {
      meet(meetings[i / 2], arguments, target, Target<P>::step(i / 2, i % 2), i % 2);
    }
    if (kAhead && more) {
      loader.fetch_tile(arguments.gradient, arguments.values, place_of<P>(index + block_count()));
    }
    float sums[P::kFragments][2][4];
    multiply_tile<P>(sums, tile, weights, at);
    MUSTER_UNROLL
    for (int i = kFirst * 2; i < P::kFragments * 2; ++i) {
      meet(meetings[i / 2], arguments, target, Target<P>::step(i / 2, i % 2), i % 2);
    }
    const BelowLines lines =
        below_lines(below_coefficients, at.warp % P::kWarpsN * 16 + at.result_channel());
    MUSTER_UNROLL
    for (int i = 0; i < P::kFragments * 2; ++i) {
      pass_on(result_of(sums[i / 2], i % 2), meetings[i / 2], i % 2,
              arguments.output + target + Target<P>::step(i / 2, i % 2), lines, channel_sums);
    }
    if (P::kReload && more) load_weights<P>(weights, arguments.weights, at);
    if (!kAhead && more) {
      loader.fetch_tile(arguments.gradient, arguments.values, place_of<P>(index + block_count()));
    }
  }
  NormSums* below = arguments.below_norm.sums;
  add_to_norm<P>(channel_sums, scratch, at, below->gradients, below->products, &below->out_of_range,
                 kGradientUnit, kGradientUnit);
}

/// The four kinds of pixels of an input that a convolution of stride 2 read: by whether row and
/// column are odd. An even row was read by the middle tap alone, an odd one by the two others.
template <class P, int kOddRow, int kOddColumn>
MUSTER_DEVICE void multiply_parity(float (&sums)[P::kFragments][2][4], const std::uint16_t* row,
                                   const uint4 (&weights)[P::kSteps]) {
  using T = typename P::T;
  MUSTER_UNROLL
  for (int fragment = 0; fragment < P::kFragments; ++fragment) {
    MUSTER_UNROLL
    for (int i = 0; i < 8; ++i) sums[fragment][i / 4][i % 4] = 0;
    MUSTER_UNROLL
    for (int i = 0; i < (1 + kOddRow) * (1 + kOddColumn); ++i) {
      // Rows and columns begin with the border, and taps are mirrored.
      const int down = i / (1 + kOddColumn);
      const int right = i % (1 + kOddColumn);
      const int tap = (kOddRow ? down * 2 : 1) * 3 + (kOddColumn ? right * 2 : 1);
      multiply_tap<P>(sums[fragment],
                      row + fragment * kLift<P> + (down + 1) * T::kPitch + (right + 1) * T::kPixel,
                      weights, tap);
    }
  }
}

MUSTER_DEVICE uint2 quarter_of(const uint2& packed) {
  const Four four = unpack(packed);
  return make_uint2(pack(four.at[0] * 0.25F, four.at[1] * 0.25F),
                    pack(four.at[2] * 0.25F, four.at[3] * 0.25F));
}

/// Where a thread's results go in the larger image, from the first pixel of even row and column on.
template <class P>
struct StridedTarget {
  std::int64_t first;  // in the gradient of the norm below
  std::int64_t above;  // in the gradient that the shortcut passes on
  MUSTER_DEVICE StridedTarget(int tile, const Lane& at) {
    const int pixel = P::first_pixel(at.warp) + at.result_row();
    const int channel = at.warp % P::kWarpsN * 16 + at.result_channel();
    const std::int64_t row = static_cast<std::int64_t>(tile / P::kTilesOfImage) * P::kOutHeight +
                             tile % P::kTilesOfImage * P::kOutRows + pixel / P::kOutWidth;
    const int column = pixel % P::kOutWidth;
    first = (row * 2 * P::kOutWidth * 2 + column * 2) * P::kOut + channel;
    // Its middle channels are ours.
    above = (row * P::kOutWidth + column) * P::kIn + P::kOut / 2 + channel;
  }
  static MUSTER_DEVICE int step(int fragment, int half, int odd_row, int odd_column) {
    const int row = (fragment * P::kFragmentRows + half * P::kHalfRows) * 2 + odd_row;
    return (row * P::kOutWidth * 2 + half * P::kHalfColumns * 2 + odd_column) * P::kOut;
  }
  static MUSTER_DEVICE int step_above(int fragment, int half) {
    return (fragment * P::kFragmentPixels + half * P::kHalfPixels) * P::kIn;
  }
};

template <class P, int kOddRow, int kOddColumn>
MUSTER_DEVICE void backward_parity(const BackwardArguments& arguments, const std::uint16_t* row,
                                   const uint4 (&weights)[P::kSteps], const BelowLines& lines,
                                   ChannelSums& channel_sums, const StridedTarget<P>& target) {
  using To = StridedTarget<P>;
  Meeting<Below::kPooled> meetings[P::kFragments];
  MUSTER_UNROLL
  for (int i = 0; i < P::kFragments * 2; ++i) {
    meet(meetings[i / 2], arguments, target.first, To::step(i / 2, i % 2, kOddRow, kOddColumn),
         i % 2);
    meetings[i / 2].shortcut[i % 2] =
        quarter_of(load_four(arguments.shortcut + target.above + To::step_above(i / 2, i % 2)));
  }
  float sums[P::kFragments][2][4];
  multiply_parity<P, kOddRow, kOddColumn>(sums, row, weights);
  MUSTER_UNROLL
  for (int i = 0; i < P::kFragments * 2; ++i) {
    pass_on(result_of(sums[i / 2], i % 2), meetings[i / 2], i % 2,
            arguments.output + target.first + To::step(i / 2, i % 2, kOddRow, kOddColumn), lines,
            channel_sums);
  }
}

/// The same for a convolution of stride 2. P has stride 1: it goes over the pixels of the
/// convolution's output, each of which stands for four of its input.
template <class P>
MUSTER_KERNEL(kThreads, P::kBlocks)
backward_strided_convolution(BackwardArguments arguments) {
  using T = typename P::T;
  auto* tiles = reinterpret_cast<std::uint16_t*>(device::shared_memory());
  auto* coefficients = reinterpret_cast<float*>(device::shared_memory() + kBuffers * T::kBytes);
  auto* below_coefficients = coefficients + 4 * kMaxChannels;
  auto* scratch = below_coefficients + 4 * kMaxChannels;
  const Lane at;
  uint4 weights[P::kSteps];
  load_weights<P>(weights, arguments.weights, at);
  clear_sides<T, kThreads>(tiles);
  device::wait_for_previous_kernel();
  device::let_next_kernel_begin();

  GradientLoader<T, kThreads> loader;
  int index = block_index();
  loader.fetch_tile(arguments.gradient, arguments.values, place_of<P>(index));
  prepare_planes<P::kIn>(coefficients, arguments.norm);
  prepare_below<P::kOut>(below_coefficients, arguments.below_norm);
  sync_threads();
  const BelowLines lines =
      below_lines(below_coefficients, at.warp % P::kWarpsN * 16 + at.result_channel());
  ChannelSums channel_sums;
  for (int turn = 0; index < arguments.tiles; index += block_count(), ++turn) {
    std::uint16_t* const tile = buffer_of<T>(tiles, turn);
    loader.store_tile(tile, coefficients, place_of<P>(index));
    sync_threads();
    if (index + block_count() < arguments.tiles) {
      loader.fetch_tile(arguments.gradient, arguments.values, place_of<P>(index + block_count()));
    }
    const std::uint16_t* const row = first_left_row<P>(tile, at);
    const StridedTarget<P> target(index, at);
    backward_parity<P, 0, 0>(arguments, row, weights, lines, channel_sums, target);
    backward_parity<P, 0, 1>(arguments, row, weights, lines, channel_sums, target);
    backward_parity<P, 1, 0>(arguments, row, weights, lines, channel_sums, target);
    backward_parity<P, 1, 1>(arguments, row, weights, lines, channel_sums, target);
  }
  NormSums* below = arguments.below_norm.sums;
  add_to_norm<P>(channel_sums, scratch, at, below->gradients, below->products, &below->out_of_range,
                 kGradientUnit, kGradientUnit);
}

}  // namespace muster::residual
