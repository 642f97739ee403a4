#include "muster/data/weights/bundle_weights.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/data/checkpoint/bundle_files.h"
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

void write_bundle(const Path& prefix, const std::vector<Weight>& tensors) {
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

/// Files of one data file and an index under a name that no reader looks for, beside the bundle
/// that they become. What was not published is removed.
class UnpublishedBundle {
 public:
  explicit UnpublishedBundle(const Path& prefix)
      : files_(file_system_for(prefix)),
        prefix_(prefix),
        folder_(prefix.has_parent_path() ? prefix.parent_path() : Path(".")) {
    static std::atomic<unsigned> counter{0};
    temporary_ =
        folder_ / fmt::format(".{}.tmp-{}-{}", prefix.filename().string(), ::getpid(), counter++);
  }
  ~UnpublishedBundle() {
    if (is_published_) return;
    try {
      files_.remove(bundle_data_path(temporary_, 0, 1));
      files_.remove(bundle_index_path(temporary_));
    } catch (const Error& error) {
      log::warning("could not clean up an unfinished bundle: {}", error.what());
    }
  }
  UnpublishedBundle(const UnpublishedBundle&) = delete;
  UnpublishedBundle& operator=(const UnpublishedBundle&) = delete;

  const Path& prefix() const { return temporary_; }

  /// The index, without which there is no bundle, is renamed last; then data files go that it does
  /// not have, those of an older bundle of more files.
  void publish() {
    const Path data = bundle_data_path(prefix_, 0, 1);
    files_.rename(bundle_data_path(temporary_, 0, 1), data);
    files_.rename(bundle_index_path(temporary_), bundle_index_path(prefix_));
    is_published_ = true;
    for (const std::string& file : files_.list(folder_)) {
      if (file != data.filename() && is_data_file(file)) files_.remove(folder_ / file);
    }
    files_.sync_directory(folder_);
  }

 private:
  // NAME.data-00001-of-00003.
  bool is_data_file(std::string_view file) const {
    const std::string begin = prefix_.filename().string() + ".data-";
    if (!file.starts_with(begin)) return false;
    std::string shape(file.substr(begin.size()));
    for (char& c : shape) {
      if (c >= '0' && c <= '9') c = '0';
    }
    return shape == "00000-of-00000";
  }

  FileSystem& files_;
  Path prefix_;
  Path folder_;
  Path temporary_{};
  bool is_published_ = false;
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
  // In an object store every file appears whole under its own name, and the index last.
  if (object_store_for(prefix) != nullptr) return write_bundle(prefix, tensors);
  UnpublishedBundle bundle(prefix);
  write_bundle(bundle.prefix(), tensors);
  bundle.publish();
}

}  // namespace muster
