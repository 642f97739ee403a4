#include "muster/data/weights/bundle_weights.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/bundle_writer.h"

namespace muster {
namespace {

class BundleStorage final : public WeightStorage {
 public:
  BundleStorage(std::shared_ptr<const BundleReader> bundle, std::string name)
      : bundle_(std::move(bundle)), name_(std::move(name)) {}

  std::uint64_t size_bytes() const override { return bundle_->stored_bytes(name_); }
  WeightBytes read() const override {
    TensorData data = bundle_->read(name_);
    return {.bytes = data.bytes, .owner = std::move(data.owner)};
  }

 private:
  std::shared_ptr<const BundleReader> bundle_;
  std::string name_;
};

}  // namespace

Weights open_bundle_weights(const Path& prefix) {
  const auto bundle = std::make_shared<const BundleReader>(prefix);
  Weights weights{.format = WeightFormat::kBundle, .path = prefix};
  for (const std::string& name : bundle->names()) {
    TensorSpec spec = bundle->spec(name);
    if (spec.type == DataType::kString) continue;
    Weight weight{.name = name,
                  .spec = std::move(spec),
                  .storage = std::make_shared<BundleStorage>(bundle, name)};
    weight.strides = row_major_strides(weight.spec.shape);
    weights.tensors.push_back(std::move(weight));
  }
  return weights;
}

void write_bundle_weights(const Path& prefix, const std::vector<Weight>& tensors) {
  BundleWriter writer(prefix);
  for (const Weight& weight : tensors) {
    if (!is_stored(weight.spec.type)) {
      throw InvalidArgument("tensor bundles have no type for tensor '{}', {}", weight.name,
                            to_string(weight.spec));
    }
    const WeightBytes bytes = row_major_bytes(weight);
    writer.add({.name = weight.name,
                .type = weight.spec.type,
                .shape = weight.spec.shape,
                .bytes = bytes.bytes});
  }
  writer.finish();
}

}  // namespace muster
