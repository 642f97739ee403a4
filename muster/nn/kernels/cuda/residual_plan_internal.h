#pragma once

/// The order of the kernels in a training step, for any launcher: CUDA's or an emulator's.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/nn/kernels/cuda/residual_step.h"
#include "muster/nn/kernels/cuda/residual_weights_internal.h"

namespace muster::residual {

constexpr int kImageWidth = 32;

/// Stage i has images of Width<i> and Channels<i>.
template <int kStage>
constexpr int kWidthOf = kImageWidth >> kStage;
template <int kStage>
constexpr int kChannelsOf = 16 << kStage;

// Rows of a tile and blocks of a multiprocessor, by measurement.
template <int kStage>
constexpr int kRowsOf = kStage == 2 ? 8 : 16;
template <int kStage>
constexpr int kBlocksOf = kStage == 0 ? 2 : 1;

template <int kStage>
using PlainProduct =
    Product<Tile<kChannelsOf<kStage>, kWidthOf<kStage>, kWidthOf<kStage>, kRowsOf<kStage> + 2>,
            kChannelsOf<kStage>, 1, kWidthOf<kStage>, kRowsOf<kStage>, kBlocksOf<kStage>>;
/// The way back has more to hold in registers.
template <int kStage>
using BackProduct =
    Product<Tile<kChannelsOf<kStage>, kWidthOf<kStage>, kWidthOf<kStage>, kRowsOf<kStage> + 2>,
            kChannelsOf<kStage>, 1, kWidthOf<kStage>, kRowsOf<kStage>, 1>;
/// Into a stage, from the one before.
template <int kStage>
using StridedProduct =
    Product<Tile<kChannelsOf<kStage - 1>, kWidthOf<kStage - 1>, kWidthOf<kStage - 1>, 17>,
            kChannelsOf<kStage>, 2, kWidthOf<kStage>, 8, kStage == 2 ? 1 : 2>;
/// Back out of a stage, over its own pixels.
template <int kStage>
using StridedBackProduct =
    Product<Tile<kChannelsOf<kStage>, kWidthOf<kStage>, kWidthOf<kStage>, kRowsOf<kStage> + 2>,
            kChannelsOf<kStage - 1>, 1, kWidthOf<kStage>, kRowsOf<kStage>, 1>;

template <int kStage>
constexpr int kWeightRowsOf = kStage == 2 ? 8 : 16;
template <int kStage>
using PlainWeightProduct = WeightProduct<
    Tile<kChannelsOf<kStage>, kWidthOf<kStage>, kWidthOf<kStage>, kWeightRowsOf<kStage> + 2>,
    Tile<kChannelsOf<kStage>, kWidthOf<kStage>, kWidthOf<kStage>, kWeightRowsOf<kStage>>, 1,
    kStage == 2 ? 16 : 8, 1, 1>;
template <int kStage>
using StridedWeightProduct =
    WeightProduct<Tile<kChannelsOf<kStage - 1>, kWidthOf<kStage - 1>, kWidthOf<kStage - 1>, 17>,
                  Tile<kChannelsOf<kStage>, kWidthOf<kStage>, kWidthOf<kStage>, 8>, 2, 8, 1, 1>;

/// Into how many parts the sums over pixels are cut. Fixed, since the cuts are part of the bits.
constexpr int kPlainSplits[kStages] = {9, 10, 10};
constexpr int kStridedSplits[kStages] = {0, 64, 32};
constexpr int kStemSplits = 128;

struct LayerShape {
  int stage;
  int in;
  int padded_in;
  int out;
  bool strided;
  int weights() const { return kTaps * padded_in * out; }
  int splits() const {
    return in == 3 ? kStemSplits : strided ? kStridedSplits[stage] : kPlainSplits[stage];
  }
};

inline LayerShape layer_shape(const Shape& shape, int layer) {
  if (layer == 0) return {0, 3, 16, 16, false};
  const int unit = (layer - 1) / 2;
  const int stage = unit / shape.units_of_stage;
  const bool first = layer % 2 == 1 && unit % shape.units_of_stage == 0 && stage > 0;
  const int out = 16 << stage;
  const int in = first ? out / 2 : out;
  return {stage, in, in, out, first};
}

/// The parts of the workspace.
class Workspace {
 public:
  Workspace(const Shape& shape, unsigned char* base) : base_(base) {
    const auto batch = static_cast<std::size_t>(shape.batch);
    // Together, to be cleared together.
    all_sums = take<NormSums>(static_cast<std::size_t>(shape.layers()));
    for (int layer = 0; layer < shape.layers(); ++layer) {
      const LayerShape of = layer_shape(shape, layer);
      sums.push_back(all_sums + layer);
      const std::size_t pixels = batch * (kImageWidth >> of.stage) * (kImageWidth >> of.stage);
      values.push_back(take<std::uint16_t>(pixels * of.out));
      gradients.push_back(take<std::uint16_t>(pixels * of.out));
      forward_weights.push_back(take<std::uint32_t>(of.weights() / 2));
      backward_weights.push_back(take<std::uint32_t>(of.weights() / 2));
      partials.push_back(take<float>(static_cast<std::size_t>(of.splits()) * of.weights()));
      // The input of a unit, which is the output of what is below it.
      if (layer % 2 == 1) {
        const std::size_t in_pixels = of.strided ? pixels * 4 : pixels;
        inputs.push_back(take<std::uint16_t>(in_pixels * of.in));
      }
    }
    output = take<std::uint16_t>(batch * 64 * kMaxChannels);
    pooled = take<float>(batch * kMaxChannels);
  }
  std::size_t bytes() const { return used_; }

  NormSums* all_sums = nullptr;
  std::vector<NormSums*> sums;
  std::vector<std::uint16_t*> values;
  std::vector<std::uint16_t*> gradients;
  std::vector<std::uint32_t*> forward_weights;
  std::vector<std::uint32_t*> backward_weights;
  std::vector<float*> partials;
  std::vector<std::uint16_t*> inputs;
  std::uint16_t* output = nullptr;
  float* pooled = nullptr;

 private:
  template <typename T>
  T* take(std::size_t count) {
    T* part = reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(base_) + used_);
    used_ += (count * sizeof(T) + 255) / 256 * 256;
    return part;
  }
  unsigned char* base_;
  std::size_t used_ = 0;
};

/// Which stream a kernel goes to. The side stream has what nothing waits for until the end.
enum class Stream { kMain, kSide };
/// Whether a kernel may begin before the one before it has ended.
enum class Begin { kEarly, kAfter };

template <class Launcher>
class Step {
 public:
  Step(const Shape& shape, const Parameters& parameters, void* workspace, Launcher& launcher)
      : shape_(shape),
        parameters_(parameters),
        workspace_(shape, static_cast<unsigned char*>(workspace)),
        launcher_(launcher) {}

  void forward(const void* images, float* logits) {
    prepare();
    stem(images);
    for (int unit = 0; unit < shape_.units(); ++unit) {
      first_convolution(unit);
      second_convolution(unit);
    }
    launcher_.fork();
    move();
    head(logits);
    launcher_.join();
  }

  /// `written` is told when the side stream has what makes the gradients of all layers from one on
  /// and of the dense layer.
  template <class Written>
  void backward(const void* images, const float* logits_gradient, const ParameterGradients& to,
                const Written& written) {
    head_back(logits_gradient);
    launcher_.fork();
    dense_back(logits_gradient, to);
    for (int unit = shape_.units() - 1; unit >= 0; --unit) {
      const bool first = unit % shape_.units_of_stage == 0;
      second_back(unit);
      if (first) {
        const int first_layer = 1 + 2 * unit;
        launcher_.fork();
        stage_weights(unit / shape_.units_of_stage);
        sum_partials(first_layer, first_layer + 2 * shape_.units_of_stage, to);
        norms_back(first_layer, first_layer + 2 * shape_.units_of_stage, to);
        written(first_layer);
      }
      first_back(unit);
    }
    launcher_.fork();
    stem_weights(images);
    sum_partials(0, 1, to);
    norms_back(0, 1, to);
    written(0);
    launcher_.join();
  }

 private:
  Norm norm(int layer) const {
    const LayerShape of = layer_shape(shape_, layer);
    const Layer& parameters = parameters_.layers[layer];
    return {workspace_.sums[layer], parameters.gamma, parameters.beta, 1.0 / count(of.stage),
            parameters_.epsilon};
  }
  double count(int stage) const {
    return static_cast<double>(shape_.batch) * (kImageWidth >> stage) * (kImageWidth >> stage);
  }
  bool pooled(int unit) const {
    return unit % shape_.units_of_stage == 0 && unit >= shape_.units_of_stage;
  }
  int blocks(int tiles, int of_multiprocessor) const {
    return std::min(tiles, std::min(launcher_.multiprocessors() * of_multiprocessor, 512));
  }

  /// Layers [first, end), as many as a launch takes at a time: a row of blocks each, or a block.
  template <class Arguments, class Fill>
  void by_layers(Stream stream, int first, int end, void (*kernel)(Arguments), int row_blocks,
                 int threads, Fill fill, Arguments arguments = {}) {
    for (; first < end; first += kLayersOfLaunch) {
      const int count = std::min(kLayersOfLaunch, end - first);
      for (int i = 0; i < count; ++i) arguments.at[i] = fill(first + i);
      launcher_.launch(stream, Begin::kAfter, kernel, row_blocks > 0 ? row_blocks : count,
                       row_blocks > 0 ? count : 1, threads, 0, arguments);
    }
  }

  void prepare() {
    WeightLayers layers{};
    layers.clear = reinterpret_cast<uint4*>(workspace_.all_sums);
    layers.clear_count = shape_.layers() * static_cast<int>(sizeof(NormSums) / sizeof(uint4));
    by_layers<WeightLayers>(
        Stream::kMain, 0, shape_.layers(), prepare_weights, 16, kThreads,
        [&](int layer) -> WeightLayer {
          const LayerShape of = layer_shape(shape_, layer);
          return {parameters_.layers[layer].weight,
                  workspace_.forward_weights[layer],
                  workspace_.backward_weights[layer],
                  of.in,
                  of.padded_in,
                  of.out};
        },
        layers);
  }

  template <class P, Source kSource>
  void convolve(int layer, const void* input, const std::uint16_t* shortcut, std::uint16_t* kept,
                int input_norm, Begin begin) {
    ForwardArguments arguments{};
    arguments.weights = reinterpret_cast<const uint4*>(workspace_.forward_weights[layer]);
    arguments.input = input;
    arguments.shortcut = shortcut;
    arguments.kept = kept;
    arguments.output = workspace_.values[layer];
    if (input_norm >= 0) arguments.norm = norm(input_norm);
    arguments.sums = workspace_.sums[layer];
    arguments.tiles = shape_.batch * P::kTilesOfImage;
    launcher_.launch(Stream::kMain, begin, forward_convolution<P, kSource>,
                     blocks(arguments.tiles, P::kBlocks), 1, kThreads, product_bytes<P>(),
                     arguments);
  }

  void stem(const void* images) {
    // Not early: it reads the weights that were just prepared.
    if (shape_.float_images) {
      convolve<PlainProduct<0>, Source::kFloats>(0, images, nullptr, nullptr, -1, Begin::kAfter);
    } else {
      convolve<PlainProduct<0>, Source::kBytes>(0, images, nullptr, nullptr, -1, Begin::kAfter);
    }
  }

  template <class P, Source kSource>
  void unit_convolution(int unit) {
    const int below = 2 * unit;
    convolve<P, kSource>(1 + 2 * unit, workspace_.values[below],
                         unit > 0 ? workspace_.inputs[unit - 1] : nullptr, workspace_.inputs[unit],
                         below, Begin::kEarly);
  }
  template <class P>
  void unit_convolution_from(int unit) {
    if (unit > 0 && pooled(unit - 1)) {
      unit_convolution<P, Source::kPooledUnit>(unit);
    } else {
      unit_convolution<P, Source::kUnit>(unit);
    }
  }
  void first_convolution(int unit) {
    const int stage = unit / shape_.units_of_stage;
    if (unit == 0) return unit_convolution<PlainProduct<0>, Source::kStem>(unit);
    if (stage == 0) return unit_convolution<PlainProduct<0>, Source::kUnit>(unit);
    if (pooled(unit) && stage == 1) {
      return unit_convolution<StridedProduct<1>, Source::kUnit>(unit);
    }
    if (pooled(unit)) return unit_convolution_from<StridedProduct<2>>(unit);
    if (stage == 1) return unit_convolution_from<PlainProduct<1>>(unit);
    unit_convolution_from<PlainProduct<2>>(unit);
  }

  template <class P>
  void inner_convolution(int unit) {
    const int below = 1 + 2 * unit;
    convolve<P, Source::kNormalised>(below + 1, workspace_.values[below], nullptr, nullptr, below,
                                     Begin::kEarly);
  }
  void second_convolution(int unit) {
    const int stage = unit / shape_.units_of_stage;
    if (stage == 0) return inner_convolution<PlainProduct<0>>(unit);
    if (stage == 1) return inner_convolution<PlainProduct<1>>(unit);
    inner_convolution<PlainProduct<2>>(unit);
  }

  using Head = HeadShape<kWidthOf<2>>;
  void head(float* logits) {
    const int last = shape_.layers() - 1;
    const int unit = shape_.units() - 1;
    const HeadForward arguments{workspace_.values[last],
                                norm(last),
                                workspace_.inputs[unit],
                                workspace_.output,
                                workspace_.pooled,
                                parameters_.kernel,
                                parameters_.bias,
                                logits,
                                shape_.batch,
                                shape_.classes};
    launcher_.launch(Stream::kMain, Begin::kEarly,
                     pooled(unit) ? head_forward<Head, true> : head_forward<Head, false>,
                     blocks(shape_.batch, 2), 1, kThreads, head_bytes(), arguments);
  }

  void move() {
    NormLayers layers{};
    layers.share_of_new = parameters_.share_of_new;
    by_layers<NormLayers>(
        Stream::kSide, 0, shape_.layers(), move_averages, 0, kMaxChannels,
        [&](int layer) -> NormLayer {
          const LayerShape of = layer_shape(shape_, layer);
          const Layer& parameters = parameters_.layers[layer];
          return {workspace_.sums[layer], parameters.moving_mean, parameters.moving_variance,
                  parameters.batches,     count(of.stage),        of.out};
        },
        layers);
  }

  void head_back(const float* logits_gradient) {
    const int last = shape_.layers() - 1;
    const HeadBackward arguments{
        logits_gradient, parameters_.kernel,         workspace_.output, workspace_.values[last],
        norm(last),      workspace_.gradients[last], shape_.batch,      shape_.classes};
    launcher_.launch(Stream::kMain, Begin::kAfter, head_backward<Head>, blocks(shape_.batch, 2), 1,
                     kThreads, head_bytes(), arguments);
  }

  void dense_back(const float* logits_gradient, const ParameterGradients& to) {
    const DenseGradient arguments{workspace_.pooled, logits_gradient, to.kernel,
                                  to.bias,           shape_.batch,    shape_.classes};
    launcher_.launch(Stream::kSide, Begin::kAfter, dense_gradient, kMaxChannels + 1, 1, kThreads,
                     kThreads * 4, arguments);
  }

  BackwardArguments back_arguments(int layer, int below) const {
    BackwardArguments arguments{};
    arguments.weights = reinterpret_cast<const uint4*>(workspace_.backward_weights[layer]);
    arguments.gradient = workspace_.gradients[layer];
    arguments.values = workspace_.values[layer];
    arguments.norm = norm(layer);
    arguments.output = workspace_.gradients[below];
    arguments.below = workspace_.values[below];
    arguments.below_norm = norm(below);
    return arguments;
  }
  template <class P>
  void launch_back(void (*kernel)(BackwardArguments), BackwardArguments arguments) {
    arguments.tiles = shape_.batch * P::kTilesOfImage;
    launcher_.launch(Stream::kMain, Begin::kEarly, kernel, blocks(arguments.tiles, P::kBlocks), 1,
                     kThreads, backward_bytes<P>(), arguments);
  }
  template <Below kBelow>
  void plain_back(int stage, const BackwardArguments& arguments) {
    if (stage == 0) {
      launch_back<BackProduct<0>>(backward_convolution<BackProduct<0>, kBelow>, arguments);
    } else if (stage == 1) {
      launch_back<BackProduct<1>>(backward_convolution<BackProduct<1>, kBelow>, arguments);
    } else {
      launch_back<BackProduct<2>>(backward_convolution<BackProduct<2>, kBelow>, arguments);
    }
  }
  void second_back(int unit) {
    const int layer = 2 + 2 * unit;
    plain_back<Below::kInside>(unit / shape_.units_of_stage, back_arguments(layer, layer - 1));
  }
  void first_back(int unit) {
    const int layer = 1 + 2 * unit;
    const int stage = unit / shape_.units_of_stage;
    BackwardArguments arguments = back_arguments(layer, layer - 1);
    arguments.mask = workspace_.inputs[unit];
    arguments.shortcut = workspace_.gradients[layer + 1];
    if (!pooled(unit)) return plain_back<Below::kUnit>(stage, arguments);
    if (stage == 1) {
      launch_back<StridedBackProduct<1>>(backward_strided_convolution<StridedBackProduct<1>>,
                                         arguments);
    } else {
      launch_back<StridedBackProduct<2>>(backward_strided_convolution<StridedBackProduct<2>>,
                                         arguments);
    }
  }

  WeightGradient weight_gradient(int layer) const {
    WeightGradient arguments{};
    if (layer % 2 == 1) {
      arguments.input = workspace_.inputs[(layer - 1) / 2];
    } else {
      arguments.input = workspace_.values[layer - 1];
      arguments.input_norm = norm(layer - 1);
    }
    arguments.gradient = workspace_.gradients[layer];
    arguments.values = workspace_.values[layer];
    arguments.norm = norm(layer);
    arguments.partial = workspace_.partials[layer];
    return arguments;
  }
  template <class W, Source kSource>
  void launch_weights(const std::vector<WeightGradient>& layers, int splits) {
    for (std::size_t first = 0; first < layers.size(); first += WeightGradients::kMost) {
      const auto count = std::min<std::size_t>(WeightGradients::kMost, layers.size() - first);
      WeightGradients batch{};
      for (std::size_t i = 0; i < count; ++i) batch.at[i] = layers[first + i];
      batch.tiles = shape_.batch * W::kTilesOfImage;
      launcher_.launch(Stream::kSide, Begin::kAfter, weight_gradients<W, kSource>, splits,
                       static_cast<int>(count), W::kThreadCount, W::kBytes, batch);
    }
  }
  void stage_weights(int stage) {
    const int first = 1 + 2 * stage * shape_.units_of_stage;
    std::vector<WeightGradient> plain;
    for (int layer = first; layer < first + 2 * shape_.units_of_stage; ++layer) {
      if (layer_shape(shape_, layer).strided) continue;
      plain.push_back(weight_gradient(layer));
    }
    constexpr auto kAny = Source::kNormalised;
    if (stage == 0) launch_weights<PlainWeightProduct<0>, kAny>(plain, kPlainSplits[0]);
    if (stage == 1) launch_weights<PlainWeightProduct<1>, kAny>(plain, kPlainSplits[1]);
    if (stage == 2) launch_weights<PlainWeightProduct<2>, kAny>(plain, kPlainSplits[2]);
    const std::vector<WeightGradient> strided{weight_gradient(first)};
    if (stage == 1) launch_weights<StridedWeightProduct<1>, kAny>(strided, kStridedSplits[1]);
    if (stage == 2) launch_weights<StridedWeightProduct<2>, kAny>(strided, kStridedSplits[2]);
  }
  void stem_weights(const void* images) {
    WeightGradient arguments{};
    arguments.input = images;
    arguments.gradient = workspace_.gradients[0];
    arguments.values = workspace_.values[0];
    arguments.norm = norm(0);
    arguments.partial = workspace_.partials[0];
    if (shape_.float_images) {
      launch_weights<PlainWeightProduct<0>, Source::kFloats>({arguments}, kStemSplits);
    } else {
      launch_weights<PlainWeightProduct<0>, Source::kBytes>({arguments}, kStemSplits);
    }
  }

  void sum_partials(int first, int end, const ParameterGradients& to) {
    by_layers<PartialLayers>(Stream::kSide, first, end, add_partials, 36, kThreads,
                             [&](int layer) -> PartialLayer {
                               const LayerShape of = layer_shape(shape_, layer);
                               return {workspace_.partials[layer],
                                       to.layers[layer].weight,
                                       of.splits(),
                                       of.in,
                                       of.padded_in,
                                       of.out};
                             });
  }
  void norms_back(int first, int end, const ParameterGradients& to) {
    by_layers<NormLayers>(Stream::kSide, first, end, norm_gradients, 0, kMaxChannels,
                          [&](int layer) -> NormLayer {
                            const LayerShape of = layer_shape(shape_, layer);
                            return {workspace_.sums[layer], to.layers[layer].gamma,
                                    to.layers[layer].beta,  nullptr,
                                    count(of.stage),        of.out};
                          });
  }

  const Shape& shape_;
  const Parameters& parameters_;
  Workspace workspace_;
  Launcher& launcher_;
};

}  // namespace muster::residual
