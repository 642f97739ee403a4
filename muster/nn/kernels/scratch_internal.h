#pragma once

#include <cstddef>
#include <memory>

namespace muster::kernels {

/// Memory of one thread that is kept between calls and only grows. Its content is anybody's: a
/// function that takes it must not call another that takes the same.
class Scratch {
 public:
  /// At least `count` floats, aligned to 64 bytes, not initialised.
  float* floats(std::size_t count) {
    if (count > count_) {
      memory_.reset(static_cast<float*>(::operator new(count * sizeof(float), kAlignment)));
      count_ = count;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<float, Free> memory_;
  std::size_t count_ = 0;
};

}  // namespace muster::kernels
