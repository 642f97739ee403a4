#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <variant>

#include "muster/nn/optim/host_update_internal.h"
#include "muster/nn/optim/update_rule_internal.h"

// Compiled without contraction into fused multiply-adds, as all that updates variables.
namespace muster::internal {
namespace {

bool is_held_back(const CudaUpdate& u) {
  if (u.losses == nullptr) return false;
  const bool is_bad = !std::all_of(u.losses, u.losses + u.loss_count,
                                   [](float loss) { return std::isfinite(loss); });
  const bool was_bad = *u.bad_step != 0;
  if (is_bad && !was_bad) *u.bad_step = *u.step + 1;
  return is_bad || was_bad;
}

bool is_decayed(const CudaUpdate& u, std::int64_t element) {
  return u.decayed != nullptr && u.decayed[element / kCudaGroupElements] != 0;
}

// Before the values change.
void store_squares(const CudaUpdate& u) {
  if (u.squares == nullptr) return;
  for (std::int64_t first = 0; first < u.count; first += kCudaBlockElements) {
    double sum = 0;
    for (std::int64_t i = first; i < std::min(u.count, first + kCudaBlockElements); ++i) {
      if (is_decayed(u, i)) sum += static_cast<double>(u.values[i]) * u.values[i];
    }
    u.squares[first / kCudaBlockElements] = sum;
  }
}

template <typename Rule, std::size_t... kSlot>
void update_elements(const CudaUpdate& u, std::index_sequence<kSlot...>) {
  const Rule rule = *static_cast<const Rule*>(u.constants);
  for (std::int64_t i = 0; i < u.count; ++i) {
    float gradient = u.gradients[i];
    if (is_decayed(u, i)) gradient += u.decay * u.values[i];
    step(rule, u.values[i], gradient, u.slots[kSlot][i]...);
  }
}

template <typename Rule>
void update_by(const CudaUpdate& u) {
  update_elements<Rule>(u, std::make_index_sequence<Rule::kSlots>());
}

// In the order of UpdateRule's alternatives.
template <std::size_t... kRule>
constexpr auto updates_of(std::index_sequence<kRule...>) {
  return std::array{&update_by<std::variant_alternative_t<kRule, UpdateRule>>...};
}
constexpr auto kUpdates = updates_of(std::make_index_sequence<std::variant_size_v<UpdateRule>>());

}  // namespace

void host_update(const CudaUpdate& update) {
  const bool held_back = is_held_back(update);
  store_squares(update);
  if (!held_back) kUpdates[static_cast<std::size_t>(update.rule)](update);
}

void host_add_decay(const CudaUpdate& update, float* gradients) {
  store_squares(update);
  for (std::int64_t i = 0; i < update.count; ++i) {
    if (is_decayed(update, i)) gradients[i] += update.decay * update.values[i];
  }
}

}  // namespace muster::internal
