#pragma once

/// The kernels around the convolutions of residual_kernels_internal.h: weights into fragments, the
/// gradients of weights, the head, and what batch norms leave behind.

#include "muster/nn/kernels/cuda/residual_kernels_internal.h"

namespace muster::residual {

/// Layers that one launch takes; a deeper network takes several.
constexpr int kLayersOfLaunch = 64;

// --- Weights ---------------------------------------------------------------------------------

struct WeightLayer {
  const float* weight;      // [out, in, 3, 3]
  std::uint32_t* forward;   // fragments for the convolution
  std::uint32_t* backward;  // fragments for its input gradient
  int in;
  int padded_in;
  int out;
};
struct WeightLayers {
  WeightLayer at[kLayersOfLaunch];
  /// Zeroed by the way.
  uint4* clear;
  int clear_count;
};

/// One weight of the product's right matrix: `row` is an input channel of the product, `column` one
/// of its output channels.
MUSTER_DEVICE float forward_weight(const WeightLayer& layer, int tap, int row, int column) {
  return row < layer.in ? layer.weight[(column * layer.in + row) * kTaps + tap] : 0.0F;
}
MUSTER_DEVICE float backward_weight(const WeightLayer& layer, int tap, int row, int column) {
  // Taps are mirrored: what a pixel gave to its right, it gets back from there.
  return column < layer.in ? layer.weight[(row * layer.in + column) * kTaps + kTaps - 1 - tap]
                           : 0.0F;
}

/// Word `word` of fragments in the order [tap][16 rows][16 columns][lane][4 registers].
struct FragmentWord {
  int tap;
  int row;
  int column;
  MUSTER_DEVICE FragmentWord(int word, int rows, int columns) {
    const int part = word % 4;
    const int lane = word / 4 % 32;
    const int sixteens = columns / 16;
    const int step = word / (128 * sixteens);
    const int chunks = rows / 16;
    tap = step / chunks;
    row = step % chunks * 16 + lane % 4 * 2 + part % 2 * 8;
    // A lane's results are columns 2q and 2q + 1 of two products of eight: made four neighbours.
    const int in_eight = lane / 4;
    column = word / 128 % sixteens * 16 + in_eight / 2 * 4 + part / 2 * 2 + in_eight % 2;
  }
};

MUSTER_KERNEL(kThreads, 1) prepare_weights(WeightLayers layers) {
  device::wait_for_previous_kernel();
  const WeightLayer& layer = layers.at[device::block_row()];
  const int words = kTaps * layer.padded_in * layer.out / 2;
  const int first = block_index() * kThreads + thread_index();
  for (int word = first; word < words; word += block_count() * kThreads) {
    const FragmentWord to(word, layer.padded_in, layer.out);
    layer.forward[word] = pack(forward_weight(layer, to.tap, to.row, to.column),
                               forward_weight(layer, to.tap, to.row + 1, to.column));
    const FragmentWord back(word, layer.out, layer.padded_in);
    layer.backward[word] = pack(backward_weight(layer, back.tap, back.row, back.column),
                                backward_weight(layer, back.tap, back.row + 1, back.column));
  }
  if (device::block_row() != 0) return;
  for (int i = first; i < layers.clear_count; i += block_count() * kThreads) {
    layers.clear[i] = make_uint4(0, 0, 0, 0);
  }
}

// --- Gradients of weights --------------------------------------------------------------------

struct WeightGradient {
  const void* input;  // of the convolution: an activation, the values of a norm, or images
  Norm input_norm;    // sums is null where the input is an activation
  const std::uint16_t* gradient;
  const std::uint16_t* values;
  Norm norm;
  float* partial;  // [split][tap][in][out]
};
struct WeightGradients {
  static constexpr int kMost = 24;
  WeightGradient at[kMost];
  int tiles;
};

/// The sum over pixels of inputs times output gradients, for all taps: rows of the product are
/// input channels, columns output channels. Warps share the channels in sixteens, and then the
/// pixels.
template <class InputTile, class GradientTile, int kStrideValue, int kWarpCountValue,
          int kBlocksValue, int kTapPartsValue>
struct WeightProduct {
  using In = InputTile;
  using Out = GradientTile;
  static constexpr int kStride = kStrideValue;
  static constexpr int kWarpCount = kWarpCountValue;
  static constexpr int kThreadCount = kWarpCount * 32;
  static constexpr int kBlocks = kBlocksValue;
  static constexpr int kTilesOfImage = Out::kHeight / Out::kRows;
  static constexpr int kGroupsM = In::kChannels / 16;
  static constexpr int kGroupsN = Out::kChannels / 16;
  // Into how many parts warps share the taps: fewer sums a thread.
  static constexpr int kTapParts = kTapPartsValue;
  static constexpr int kTapsOfWarp = (kTaps + kTapParts - 1) / kTapParts;
  static constexpr int kGroups = kGroupsM * kGroupsN * kTapParts;
  static constexpr int kSplits = kWarpCount / kGroups;
  static constexpr int kSteps = Out::kRows * Out::kWidth / 16;
  static constexpr int kWeights = kTaps * In::kChannels * Out::kChannels;
  static constexpr int kTileBytes = kBuffers * (In::kBytes + Out::kBytes);
  // Warps that share pixels add their sums in shared memory.
  static constexpr int kSumBytes = kSplits > 1 ? kWeights * 4 : 0;
  static constexpr int kBytes =
      (kTileBytes > kSumBytes ? kTileBytes : kSumBytes) + 2 * kCoefficientBytes;
  static_assert(kSplits * kGroups == kWarpCount, "warps share channels evenly");
};

template <class W, Source kSource>
struct InputLoader {
  using T = typename W::In;
  using S = Share<T, W::kThreadCount>;
  S share{};
  uint4 raw[S::kCount];

  MUSTER_DEVICE void fetch_tile(const void* input, const Place& place) {
    if constexpr (!kIsImage<kSource>) {
      fetch<T, W::kThreadCount>(raw, static_cast<const std::uint16_t*>(input), share, place);
    }
  }
  MUSTER_DEVICE void store_tile(std::uint16_t* tile, const WeightGradient& layer,
                                const float* coefficients, const Place& place) const {
    EightLines lines;
    const bool normalised = !kIsImage<kSource> && layer.input_norm.sums != nullptr;
    if (normalised) lines = lines_of(coefficients, share.group);
    MUSTER_UNROLL
    for (int i = 0; i < S::kCount; ++i) {
      if (!share.in_tile(i)) continue;
      const int row = place.row + share.row(i);
      uint4 vector = make_uint4(0, 0, 0, 0);
      if (in_image<T>(row)) {
        if constexpr (kIsImage<kSource>) {
          vector = image_vector<kSource, T>(layer.input, place, row, share.column, share.group);
        } else {
          vector = normalised ? normalised_vector(raw[i], lines) : raw[i];
        }
      }
      store_eight(share.place(tile, i), vector);
    }
  }
  static MUSTER_DEVICE uint4 normalised_vector(const uint4& raw, const EightLines& lines) {
    Eight values = unpack(raw);
    MUSTER_UNROLL
    for (int j = 0; j < 8; ++j) {
      values.at[j] = fused_multiply_add(values.at[j], lines.scale[j], lines.shift[j]);
    }
    return pack_eight_relu(values);
  }
};

/// Share that a warp sums: sixteen input channels, sixteen output channels, some taps, some pixels.
template <class W>
struct WarpShare {
  int in;
  int out;
  int first_tap;
  int split;
  explicit MUSTER_DEVICE WarpShare(int warp)
      : in(warp % W::kGroupsM * 16),
        out(warp / W::kGroupsM % W::kGroupsN * 16),
        first_tap(warp / (W::kGroupsM * W::kGroupsN) % W::kTapParts * W::kTapsOfWarp),
        split(warp / W::kGroups) {}
};

template <class W>
using WarpSums = float[W::kTapsOfWarp][2][4];

/// sums += inputs^T * gradients over this warp's pixels of a tile.
template <class W>
MUSTER_DEVICE void multiply_pixels(WarpSums<W>& sums, const std::uint16_t* input,
                                   const std::uint16_t* gradient, const Lane& at) {
  using In = typename W::In;
  using Out = typename W::Out;
  const WarpShare<W> share(at.warp);
  const int in_channel = share.in + at.lane / 8 % 2 * 8;
  const int out_channel = share.out + at.lane / 16 * 8;
  for (int step = share.split; step < W::kSteps; step += W::kSplits) {
    const int right = step * 16 + at.lane % 8 + at.lane / 8 % 2 * 8;
    std::uint32_t b[4];
    device::load_matrices_transposed(b, gradient + right / Out::kWidth * Out::kPitch +
                                            (right % Out::kWidth + 1) * Out::kPixel + out_channel);
    const int left = step * 16 + at.lane % 8 + at.lane / 16 * 8;
    const std::uint16_t* row = input + left / Out::kWidth * W::kStride * In::kPitch +
                               left % Out::kWidth * W::kStride * In::kPixel + in_channel;
    MUSTER_UNROLL
    for (int i = 0; i < W::kTapsOfWarp; ++i) {
      const int tap = share.first_tap + i;
      if (kTaps % W::kTapParts == 0 || tap < kTaps) {
        std::uint32_t a[4];
        device::load_matrices_transposed(a, row + tap / 3 * In::kPitch + tap % 3 * In::kPixel);
        device::multiply_add(sums[i][0], a, b[0], b[1]);
        device::multiply_add(sums[i][1], a, b[2], b[3]);
      }
    }
  }
}

/// Adds the warps' sums, one after the other, and writes them.
template <class W>
MUSTER_DEVICE void write_partial(const WarpSums<W>& sums, float* shared, float* partial,
                                 const Lane& at) {
  const WarpShare<W> share(at.warp);
  for (int split = 0; split < W::kSplits; ++split) {
    const bool last = split == W::kSplits - 1;
    if (share.split == split) {
      MUSTER_UNROLL
      for (int i = 0; i < W::kTapsOfWarp * 4; ++i) {
        const int tap = share.first_tap + i / 4;
        if (tap >= kTaps) continue;
        const int eight = i / 2 % 2;
        const int in = share.in + at.lane / 4 + i % 2 * 8;
        const int out = share.out + eight * 8 + at.lane % 4 * 2;
        const int index = (tap * W::In::kChannels + in) * W::Out::kChannels + out;
        float first = sums[i / 4][eight][i % 2 * 2];
        float second = sums[i / 4][eight][i % 2 * 2 + 1];
        if (split > 0) first += shared[index];
        if (split > 0) second += shared[index + 1];
        float* to = last ? partial : shared;
        to[index] = first;
        to[index + 1] = second;
      }
    }
    sync_threads();
  }
}

template <class W, Source kSource>
MUSTER_KERNEL(W::kThreadCount, W::kBlocks)
weight_gradients(WeightGradients layers) {
  using In = typename W::In;
  using Out = typename W::Out;
  auto* inputs = reinterpret_cast<std::uint16_t*>(device::shared_memory());
  auto* gradients = inputs + kBuffers * (In::kBytes / 2);
  auto* lines =
      reinterpret_cast<float*>(device::shared_memory() + W::kBytes - 2 * kCoefficientBytes);
  auto* planes = lines + 4 * kMaxChannels;
  const Lane at;
  const WeightGradient& layer = layers.at[device::block_row()];
  clear_sides<In, W::kThreadCount>(inputs);
  device::wait_for_previous_kernel();

  // A fixed share of the tiles.
  const auto tiles = static_cast<std::int64_t>(layers.tiles);
  int index = static_cast<int>(tiles * block_index() / block_count());
  const int end = static_cast<int>(tiles * (block_index() + 1) / block_count());
  const auto input_place = [](int tile) -> Place {
    return {tile / W::kTilesOfImage, tile % W::kTilesOfImage * Out::kRows * W::kStride - 1};
  };
  const auto gradient_place = [](int tile) -> Place {
    return {tile / W::kTilesOfImage, tile % W::kTilesOfImage * Out::kRows};
  };
  InputLoader<W, kSource> input_loader;
  GradientLoader<Out, W::kThreadCount> gradient_loader;
  if (index < end) {
    input_loader.fetch_tile(layer.input, input_place(index));
    gradient_loader.fetch_tile(layer.gradient, layer.values, gradient_place(index));
  }
  if (!kIsImage<kSource> && layer.input_norm.sums != nullptr) {
    prepare_lines<In::kChannels>(lines, layer.input_norm);
  }
  prepare_planes<Out::kChannels>(planes, layer.norm);
  sync_threads();
  WarpSums<W> sums = {};
  for (int turn = 0; index < end; ++index, ++turn) {
    std::uint16_t* const input = buffer_of<In>(inputs, turn);
    std::uint16_t* const gradient = buffer_of<Out>(gradients, turn);
    input_loader.store_tile(input, layer, lines, input_place(index));
    gradient_loader.store_tile(gradient, planes, gradient_place(index));
    sync_threads();
    if (index + 1 < end) {
      input_loader.fetch_tile(layer.input, input_place(index + 1));
      gradient_loader.fetch_tile(layer.gradient, layer.values, gradient_place(index + 1));
    }
    multiply_pixels<W>(sums, input, gradient, at);
  }
  sync_threads();
  write_partial<W>(sums, reinterpret_cast<float*>(device::shared_memory()),
                   layer.partial + static_cast<std::int64_t>(block_index()) * W::kWeights, at);
}

struct PartialLayer {
  const float* partial;  // [split][tap][padded_in][out]
  float* gradient;       // [out, in, 3, 3], added to
  int splits;
  int in;
  int padded_in;
  int out;
};
struct PartialLayers {
  PartialLayer at[kLayersOfLaunch];
};

MUSTER_KERNEL(kThreads, 1) add_partials(PartialLayers layers) {
  device::wait_for_previous_kernel();
  const PartialLayer& layer = layers.at[device::block_row()];
  const int weights = kTaps * layer.padded_in * layer.out;
  for (int index = block_index() * kThreads + thread_index(); index < weights;
       index += block_count() * kThreads) {
    const int out = index % layer.out;
    const int in = index / layer.out % layer.padded_in;
    const int tap = index / (layer.out * layer.padded_in);
    if (in >= layer.in) continue;
    float sum = 0;
    MUSTER_UNROLL_BY(8)
    for (int split = 0; split < layer.splits; ++split) {
      sum += layer.partial[static_cast<std::int64_t>(split) * weights + index];
    }
    layer.gradient[(out * layer.in + in) * kTaps + tap] += sum;
  }
}

// --- What batch norms leave behind -----------------------------------------------------------

struct NormLayer {
  NormSums* sums;
  float* first;           // moving mean, or gamma's gradient
  float* second;          // moving variance, or beta's gradient
  std::int64_t* batches;  // counted, unless null
  double count;
  int channels;
};
struct NormLayers {
  NormLayer at[kLayersOfLaunch];
  float share_of_new;
};

MUSTER_KERNEL(kMaxChannels, 1) move_averages(NormLayers layers) {
  device::wait_for_previous_kernel();
  const NormLayer& layer = layers.at[block_index()];
  const int channel = thread_index();
  if (channel >= layer.channels) return;
  double mean = static_cast<double>(layer.sums->values[channel]) / layer.count / kValueUnit;
  const double square =
      static_cast<double>(layer.sums->squares[channel]) / layer.count / kSquareUnit;
  double variance = square - mean * mean;
  if (variance < 0) variance = 0;
  if (layer.count > 1) variance *= layer.count / (layer.count - 1);
  if (layer.sums->out_of_range != 0) mean = variance = device::not_a_number();
  const float share = layers.share_of_new;
  layer.first[channel] += share * (static_cast<float>(mean) - layer.first[channel]);
  layer.second[channel] += share * (static_cast<float>(variance) - layer.second[channel]);
  if (channel == 0 && layer.batches != nullptr) *layer.batches += 1;
}

MUSTER_KERNEL(kMaxChannels, 1) norm_gradients(NormLayers layers) {
  device::wait_for_previous_kernel();
  const NormLayer& layer = layers.at[block_index()];
  const int channel = thread_index();
  if (channel >= layer.channels) return;
  double gamma = static_cast<double>(layer.sums->products[channel]) / kGradientUnit;
  double beta = static_cast<double>(layer.sums->gradients[channel]) / kGradientUnit;
  if (layer.sums->out_of_range != 0) gamma = beta = device::not_a_number();
  layer.first[channel] += static_cast<float>(gamma);
  layer.second[channel] += static_cast<float>(beta);
}

// --- Head ------------------------------------------------------------------------------------

/// The last unit's output has 64 channels; a thread has eight channels of some pixels.
template <int kWidthValue>
struct HeadShape {
  using T = Tile<kMaxChannels, kWidthValue, kWidthValue, kWidthValue>;
  static constexpr int kPixels = kWidthValue * kWidthValue;
  static constexpr int kPixelThreads = kThreads / T::kGroups;
};

struct HeadForward {
  const std::uint16_t* values;
  Norm norm;
  const std::uint16_t* shortcut;
  std::uint16_t* output;
  float* pooled;        // [image, 64]
  const float* kernel;  // [64, classes]
  const float* bias;    // [classes]
  float* logits;        // [image, classes]
  int images;
  int classes;
};

constexpr int kHeadScratch = kThreads / 8 * kMaxChannels;  // floats

/// Sums over the pixel threads of a block, in their order: 64 channels in the first 64 threads.
MUSTER_DEVICE float sum_of_channel(const float* scratch, int channel) {
  float sum = 0;
  for (int i = 0; i < kThreads / 8; ++i) sum += scratch[i * kMaxChannels + channel];
  return sum;
}
MUSTER_DEVICE void write_channels(float* scratch, const Eight& values, int group) {
  MUSTER_UNROLL
  for (int j = 0; j < 8; ++j) {
    scratch[thread_index() / 8 * kMaxChannels + group * 8 + j] = values.at[j];
  }
}

/// relu(norm(values) + shortcut), its mean over the pixels, and the dense layer.
template <class H, bool kPooledShortcut>
MUSTER_KERNEL(kThreads, 2)
head_forward(HeadForward arguments) {
  using T = typename H::T;
  auto* scratch = reinterpret_cast<float*>(device::shared_memory());
  float* coefficients = scratch + kHeadScratch;
  float* pooled = coefficients + 4 * kMaxChannels;
  device::wait_for_previous_kernel();
  device::let_next_kernel_begin();
  prepare_lines<kMaxChannels>(coefficients, arguments.norm);
  sync_threads();
  const int group = thread_index() % T::kGroups;
  const EightLines lines = lines_of(coefficients, group);
  for (int image = block_index(); image < arguments.images; image += block_count()) {
    Eight total{};
    for (int pixel = thread_index() / T::kGroups; pixel < H::kPixels; pixel += H::kPixelThreads) {
      const int row = pixel / T::kWidth;
      const int column = pixel % T::kWidth;
      const std::int64_t offset = offset_of<T>(image, row, column) + group * 8;
      Eight values = unpack(load_eight(arguments.values + offset));
      Eight more;
      if constexpr (kPooledShortcut) {
        more = pooled_shortcut<T>(arguments.shortcut, image, row, column, group);
      } else {
        more = unpack(load_eight(arguments.shortcut + offset));
      }
      MUSTER_UNROLL
      for (int j = 0; j < 8; ++j) {
        values.at[j] =
            fused_multiply_add(values.at[j], lines.scale[j], lines.shift[j]) + more.at[j];
      }
      const uint4 rounded = pack_eight_relu(values);
      store_eight(arguments.output + offset, rounded);
      const Eight kept = unpack(rounded);
      MUSTER_UNROLL
      for (int j = 0; j < 8; ++j) total.at[j] += kept.at[j];
    }
    write_channels(scratch, total, group);
    sync_threads();
    if (thread_index() < kMaxChannels) {
      const float mean = sum_of_channel(scratch, thread_index()) * (1.0F / H::kPixels);
      pooled[thread_index()] = mean;
      arguments.pooled[image * kMaxChannels + thread_index()] = mean;
    }
    sync_threads();
    for (int i = thread_index(); i < arguments.classes; i += kThreads) {
      float logit = arguments.bias[i];
      for (int channel = 0; channel < kMaxChannels; ++channel) {
        logit = fused_multiply_add(pooled[channel],
                                   arguments.kernel[channel * arguments.classes + i], logit);
      }
      arguments.logits[static_cast<std::int64_t>(image) * arguments.classes + i] = logit;
    }
    sync_threads();
  }
}

struct HeadBackward {
  const float* logits_gradient;
  const float* kernel;
  const std::uint16_t* output;  // of the last unit
  const std::uint16_t* values;  // of its last norm
  Norm norm;
  std::uint16_t* gradient;  // of that norm's output
  int images;
  int classes;
};

template <class H>
MUSTER_KERNEL(kThreads, 2)
head_backward(HeadBackward arguments) {
  using T = typename H::T;
  auto* scratch = reinterpret_cast<float*>(device::shared_memory());
  float* coefficients = scratch + kHeadScratch;
  float* pooled = coefficients + 4 * kMaxChannels;
  device::wait_for_previous_kernel();
  device::let_next_kernel_begin();
  if (thread_index() < kMaxChannels) {
    const Moments moments = moments_of(arguments.norm, thread_index());
    coefficients[thread_index()] = moments.mean;
    coefficients[kMaxChannels + thread_index()] = moments.inverse_deviation;
  }
  sync_threads();
  const int group = thread_index() % T::kGroups;
  Eight gradients{};
  Eight products{};
  for (int image = block_index(); image < arguments.images; image += block_count()) {
    if (thread_index() < kMaxChannels) {
      float sum = 0;
      for (int i = 0; i < arguments.classes; ++i) {
        sum = fused_multiply_add(
            arguments.logits_gradient[static_cast<std::int64_t>(image) * arguments.classes + i],
            arguments.kernel[thread_index() * arguments.classes + i], sum);
      }
      pooled[thread_index()] = sum * (1.0F / H::kPixels);
    }
    sync_threads();
    for (int pixel = thread_index() / T::kGroups; pixel < H::kPixels; pixel += H::kPixelThreads) {
      const std::int64_t offset =
          offset_of<T>(image, pixel / T::kWidth, pixel % T::kWidth) + group * 8;
      const Eight output = unpack(load_eight(arguments.output + offset));
      const Eight values = unpack(load_eight(arguments.values + offset));
      Eight gradient;
      MUSTER_UNROLL
      for (int j = 0; j < 8; ++j) {
        gradient.at[j] = output.at[j] > 0 ? pooled[group * 8 + j] : 0.0F;
      }
      const uint4 rounded = pack_eight(gradient);
      store_eight(arguments.gradient + offset, rounded);
      const Eight kept = unpack(rounded);
      MUSTER_UNROLL
      for (int j = 0; j < 8; ++j) {
        const float normalised = (values.at[j] - coefficients[group * 8 + j]) *
                                 coefficients[kMaxChannels + group * 8 + j];
        gradients.at[j] += kept.at[j];
        products.at[j] = fused_multiply_add(kept.at[j], normalised, products.at[j]);
      }
    }
    sync_threads();
  }
  NormSums* sums = arguments.norm.sums;
  write_channels(scratch, gradients, group);
  sync_threads();
  if (thread_index() < kMaxChannels) {
    add_fixed(sums->gradients + thread_index(), &sums->out_of_range,
              sum_of_channel(scratch, thread_index()), kGradientUnit);
  }
  sync_threads();
  write_channels(scratch, products, group);
  sync_threads();
  if (thread_index() < kMaxChannels) {
    add_fixed(sums->products + thread_index(), &sums->out_of_range,
              sum_of_channel(scratch, thread_index()), kGradientUnit);
  }
}

constexpr int head_bytes() { return (kHeadScratch + 5 * kMaxChannels) * 4; }

struct DenseGradient {
  const float* pooled;
  const float* logits_gradient;
  float* kernel_gradient;
  float* bias_gradient;
  int images;
  int classes;
};

/// One block a channel of the pooled image, and one for the bias. Threads share the images out.
MUSTER_KERNEL(kThreads, 1) dense_gradient(DenseGradient arguments) {
  auto* scratch = reinterpret_cast<float*>(device::shared_memory());
  device::wait_for_previous_kernel();
  const int channel = block_index();
  const int slices = kThreads / arguments.classes;
  const int of_class = thread_index() % arguments.classes;
  const int slice = thread_index() / arguments.classes;
  float sum = 0;
  for (int image = slice; slice < slices && image < arguments.images; image += slices) {
    const float pooled =
        channel < kMaxChannels ? arguments.pooled[image * kMaxChannels + channel] : 1.0F;
    sum = fused_multiply_add(
        pooled,
        arguments.logits_gradient[static_cast<std::int64_t>(image) * arguments.classes + of_class],
        sum);
  }
  scratch[thread_index()] = sum;
  sync_threads();
  if (thread_index() >= arguments.classes) return;
  float total = 0;
  for (int i = 0; i < slices; ++i) total += scratch[i * arguments.classes + thread_index()];
  float* to = channel < kMaxChannels ? arguments.kernel_gradient + channel * arguments.classes
                                     : arguments.bias_gradient;
  to[thread_index()] += total;
}

}  // namespace muster::residual
