#include "muster/train/engine/tower_options.h"

#include <algorithm>
#include <span>

#include "muster/base/error.h"
#include "muster/nn/device/devices.h"
#include "muster/nn/model/model.h"
#include "muster/nn/model/sparse_tables.h"
#include "muster/train/engine/seeded_model.h"

namespace muster {
namespace {

bool has_gpu(std::span<const c10::Device> devices) {
  return std::ranges::any_of(devices, [](c10::Device device) { return device.is_cuda(); });
}

bool has_feature_columns(const Model& model) {
  return std::ranges::any_of(model.modules(), [](const auto& module) {
    return dynamic_cast<const SparseTables*>(module.get()) != nullptr;
  });
}

}  // namespace

std::vector<c10::Device> tower_devices(const RunConfig& config, const ModelFactory& factory) {
  auto devices = resolve_devices(config.devices.names);
  if (!has_gpu(devices)) return devices;
  if (!has_feature_columns(*make_seeded_model(factory, config.seed()))) return devices;
  if (config.devices.names.empty()) return {c10::Device(c10::kCPU)};
  throw InvalidArgument(
      "RunConfig: devices is {}, but the model has feature columns, which are looked up on the "
      "CPU; leave devices empty, or name \"cpu\"",
      describe(devices));
}

bool TowerOptions::on_gpus() const { return has_gpu(devices); }

std::size_t TowerOptions::lanes() const {
  const bool one_each = on_gpus() || logical_devices;
  const auto wanted = one_each ? devices.size() : static_cast<std::size_t>(concurrent);
  return std::clamp<std::size_t>(wanted, 1, static_cast<std::size_t>(replicas));
}

}  // namespace muster
