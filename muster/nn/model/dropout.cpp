#include "muster/nn/model/dropout.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/nn/kernels/parallel_for.h"
#include "muster/nn/model/device_dropout_internal.h"
#include "muster/nn/model/philox_fill.h"
#include "muster/nn/model/random_scope.h"

namespace muster {
namespace {

// A Philox block has 128 bits, which decide over 8 values.
constexpr std::int64_t kValuesInBlock = 8;
constexpr std::int64_t kBlocksAtATime = 256;
constexpr std::int64_t kValuesAtATime = kBlocksAtATime * kValuesInBlock;

template <typename Value>
void fill_some(Value* out, std::int64_t count, const std::uint32_t* words, std::uint32_t dropped,
               Value kept) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = (words[i / 2] >> (16 * (i % 2))) & 0xFFFF;
    out[i] = bits < dropped ? Value{0} : kept;
  }
}

// Value i depends on the key and i alone, so threads do not matter.
template <typename Value>
void fill_mask(Value* out, std::int64_t count, std::uint64_t key, std::uint32_t dropped,
               Value kept) {
  const auto pieces = (count + kValuesAtATime - 1) / kValuesAtATime;
  kernels::parallel_for(0, pieces, 16, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::uint32_t, kBlocksAtATime * 4> words;
    for (auto piece = begin; piece < end; ++piece) {
      const auto first = piece * kValuesAtATime;
      philox_fill(key, static_cast<std::uint64_t>(piece * kBlocksAtATime), words);
      fill_some(out + first, std::min(kValuesAtATime, count - first), words.data(), dropped, kept);
    }
  });
}

// As Dropout::mask_for() makes it, by a key that another step writes again.
at::Tensor draw_mask(const at::Tensor& key, std::int64_t layer, std::int64_t number,
                     std::int64_t dropped_of_65536, at::IntArrayRef sizes) {
  const auto dropped = static_cast<std::uint32_t>(dropped_of_65536);
  const internal::DropoutDraw draw{
      .scope_on_device = reinterpret_cast<const std::uint64_t*>(key.data_ptr<std::int64_t>()),
      .layer = static_cast<std::uint64_t>(layer),
      .number = static_cast<std::uint64_t>(number)};
  auto mask = at::empty(sizes, at::TensorOptions(at::kByte).device(key.device()));
  if (key.is_cpu()) {
    fill_mask(mask.data_ptr<std::uint8_t>(), mask.numel(),
              derive_key(*draw.scope_on_device, draw.layer, draw.number), dropped, std::uint8_t{1});
  } else if (!internal::fill_dropout_mask(draw, dropped, mask)) {
    throw Internal("dropout runs on a GPU in a muster that was built without CUDA");
  }
  return mask;
}

TORCH_LIBRARY_FRAGMENT(muster, library) {
  library.def(
      "dropout_mask(Tensor key, int layer, int number, int dropped_of_65536, int[] sizes) -> "
      "Tensor");
  // No part of it is an operation by itself.
  library.impl("dropout_mask",
               torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &draw_mask));
}

// The operation, which a recording of the step sees.
at::Tensor mask_by_operation(RandomScope& scope, std::uint64_t layer, std::uint32_t dropped,
                             at::IntArrayRef sizes) {
  static const auto operation = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("muster::dropout_mask", "")
                                    .typed<at::Tensor(const at::Tensor&, std::int64_t, std::int64_t,
                                                      std::int64_t, at::IntArrayRef)>();
  const auto number = static_cast<std::int64_t>(scope.next_draw(layer));
  return operation.call(scope.key_tensor(), static_cast<std::int64_t>(layer), number, dropped,
                        sizes);
}

}  // namespace

Dropout::Dropout(double rate)
    : dropped_of_65536_(static_cast<std::uint32_t>(std::lround(rate * 65536.0))),
      layer_(derive_key(0, "")) {
  if (!(rate >= 0.0 && rate < 1.0)) {
    throw InvalidArgument("the rate of dropout must be in [0, 1): {}", rate);
  }
  dropped_of_65536_ = std::min(dropped_of_65536_, std::uint32_t{65535});
}

torch::Tensor Dropout::forward(const torch::Tensor& input) {
  if (!is_training() || dropped_of_65536_ == 0) return input;
  auto* const scope = RandomScope::current();
  if (scope == nullptr) {
    throw FailedPrecondition(
        "dropout in training needs to know its random numbers: open a RandomScope around forward, "
        "as the training loop does, or call eval()");
  }
  const double scale = 65536.0 / (65536.0 - dropped_of_65536_);
  if (input.is_cpu() && input.scalar_type() == torch::kFloat && !scope->key_tensor().defined()) {
    const auto mask = torch::empty(input.sizes(), torch::kFloat);
    fill_mask(mask.data_ptr<float>(), mask.numel(), scope->next_key(layer_), dropped_of_65536_,
              static_cast<float>(scale));
    return input * mask;
  }
  // Elsewhere it is a byte a value, and the scale is applied there.
  return input * (mask_for(input, *scope).to(input.scalar_type()) * scale);
}

torch::Tensor Dropout::mask_for(const torch::Tensor& input, RandomScope& scope) const {
  if (scope.key_tensor().defined()) {
    return mask_by_operation(scope, layer_, dropped_of_65536_, input.sizes()).to(input.device());
  }
  if (input.is_cuda()) {
    const internal::DropoutDraw draw{.scope_on_device = scope.key_on_device(),
                                     .scope = scope.key(),
                                     .layer = layer_,
                                     .number = scope.next_draw(layer_)};
    auto mask = torch::empty(input.sizes(), torch::dtype(torch::kByte).device(input.device()));
    if (internal::fill_dropout_mask(draw, dropped_of_65536_, mask)) return mask;
    throw Internal("dropout runs on a GPU in a muster that was built without CUDA");
  }
  auto mask = torch::empty(input.sizes(), torch::kByte);
  fill_mask(mask.data_ptr<std::uint8_t>(), mask.numel(), scope.next_key(layer_), dropped_of_65536_,
            std::uint8_t{1});
  return mask.to(input.device());
}

void Dropout::seed_from(std::uint64_t, const std::string& name) { layer_ = derive_key(0, name); }

void Dropout::pretty_print(std::ostream& stream) const {
  stream << "muster::Dropout(rate=" << dropped_of_65536_ / 65536.0 << ")";
}

}  // namespace muster
