#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

/// Memory and values of a small run: what a request of some rows needs, without a piece of memory,
/// a tensor and an account of its own for every step.
namespace muster::executor {

/// Memory that is taken piece by piece and given back all at once. Belongs to one thread.
class Arena {
 public:
  /// Most bytes that are taken before reset(), and kept after it.
  static constexpr std::size_t kMostBytes = std::size_t{2} << 20;

  /// Aligned to 16 bytes, not initialised. Null where there is no room.
  void* take(std::size_t bytes) {
    // Something, also where nothing is wanted: null says that there is no room.
    const std::size_t whole = (bytes / kAlignment + 1) * kAlignment;
    if (whole > left_) return take_from_new_block(whole);
    void* const memory = next_;
    next_ += whole;
    left_ -= whole;
    return memory;
  }

  /// Everything that was taken is free again.
  void reset();

 private:
  static constexpr std::size_t kAlignment = 16;
  static constexpr std::size_t kLeastBlock = std::size_t{1} << 16;

  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };

  void* take_from_new_block(std::size_t bytes);
  void add_block(std::size_t bytes);

  std::vector<Block> blocks_;
  std::size_t block_bytes_ = 0;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

enum class ArenaType : std::uint8_t { kFloat, kDouble, kInt32, kInt64, kBool, kStrings };

/// Calls act(T{}) with the type of the elements; strings are views.
template <typename Act>
auto for_arena_type(ArenaType type, const Act& act) {
  switch (type) {
    case ArenaType::kFloat:
      return act(float{});
    case ArenaType::kDouble:
      return act(double{});
    case ArenaType::kInt32:
      return act(std::int32_t{});
    case ArenaType::kInt64:
      return act(std::int64_t{});
    case ArenaType::kBool:
      return act(bool{});
    case ArenaType::kStrings:
      break;
  }
  return act(std::string_view{});
}

constexpr std::size_t size_of(ArenaType type) {
  constexpr std::array<std::size_t, 6> kSizes{4, 8, 4, 8, 1, sizeof(std::string_view)};
  return kSizes[static_cast<std::size_t>(type)];
}

/// A tensor whose elements lie anywhere, row-major: in an arena, a constant, a request.
struct ArenaValue {
  static constexpr std::size_t kMostAxes = 4;

  const void* data = nullptr;
  std::int64_t count = 0;
  std::array<std::int64_t, kMostAxes> sizes{};
  std::uint8_t rank = 0;
  ArenaType type = ArenaType::kFloat;

  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
  std::span<const std::int64_t> shape() const { return {sizes.data(), rank}; }
  bool has_shape_of(const ArenaValue& other) const {
    if (rank != other.rank) return false;
    for (std::size_t i = 0; i < rank; ++i) {
      if (sizes[i] != other.sizes[i]) return false;
    }
    return true;
  }
  bool is_whole_numbers() const { return type == ArenaType::kInt32 || type == ArenaType::kInt64; }
  /// An element of whole numbers.
  std::int64_t whole(std::int64_t index) const {
    return type == ArenaType::kInt64 ? as<std::int64_t>()[index] : as<std::int32_t>()[index];
  }

  /// Sets shape and count. False where there are too many axes, a negative size, or more elements
  /// than any arena holds.
  bool set_shape(std::span<const std::int64_t> shape);
};

}  // namespace muster::executor
