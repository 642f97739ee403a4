#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/tensor.h"

/// Small variables that the tests of this folder save and read.
namespace muster::testing {

/// Tensors that all hold the same number, so that a mixture of two saves shows.
class Variables {
 public:
  explicit Variables(std::size_t count = 16, std::size_t elements = 64)
      : values_(count, std::vector<float>(elements)) {
    for (std::size_t i = 0; i < count; ++i) names_.push_back("layer_" + std::to_string(i));
  }

  void fill(float value) {
    for (auto& tensor : values_) tensor.assign(tensor.size(), value);
  }

  std::vector<TensorView> views() const {
    std::vector<TensorView> views;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      views.push_back({.name = names_[i],
                       .shape = {static_cast<std::int64_t>(values_[i].size())},
                       .bytes = std::as_bytes(std::span(values_[i]))});
    }
    return views;
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<float>> values_;
};

/// Whether every element of every tensor is this number.
inline bool holds_only(const BundleReader& bundle, float expected) {
  for (const std::string& name : bundle.names()) {
    const TensorData tensor = bundle.read(name);
    for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof expected) {
      if (std::memcmp(tensor.bytes.data() + at, &expected, sizeof expected) != 0) return false;
    }
  }
  return !bundle.names().empty();
}

}  // namespace muster::testing
