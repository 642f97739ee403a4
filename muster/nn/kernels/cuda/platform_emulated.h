#pragma once

/// platform_cuda.cuh's names on a CPU, slow but exact: threads of a block are fibers, a warp's
/// instructions are meetings of its 32 lanes. Tests hold the kernels to a reference with it on
/// machines without a GPU. A wrong meeting (a lane that never comes) throws.

#include <ucontext.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#define MUSTER_DEVICE inline
#define MUSTER_KERNEL(threads, blocks_of_a_multiprocessor) void
#define MUSTER_UNROLL
#define MUSTER_UNROLL_BY(count)

struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
  std::uint32_t x, y;
};
inline uint4 make_uint4(std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(std::uint32_t x, std::uint32_t y) { return {x, y}; }

namespace muster::device {

/// One block of threads, run to its end on one CPU thread.
class EmulatedBlock {
 public:
  EmulatedBlock(int index, int row, int count, int threads, std::size_t shared_bytes)
      : index_(index), row_(row), count_(count), shared_(shared_bytes / 8 + 1), fibers_(threads) {
    // Not a number, also as bf16: what is read before it is written shows.
    std::memset(shared_.data(), 0xff, shared_.size() * 8);
  }

  void run(const std::function<void()>& body) {
    current() = this;
    body_ = &body;
    for (std::size_t i = 0; i < fibers_.size(); ++i) start(fibers_[i], stack(i));
    while (run_warps()) {
      for (auto& fiber : fibers_) fiber.state = fiber.state == kAtBlock ? kReady : fiber.state;
    }
    current() = nullptr;
  }

  static EmulatedBlock*& current() {
    thread_local EmulatedBlock* block = nullptr;
    return block;
  }
  int index() const { return index_; }
  int row() const { return row_; }
  int count() const { return count_; }
  int thread() const { return running_; }
  unsigned char* shared() { return reinterpret_cast<unsigned char*>(shared_.data()); }

  void meet_block() { pause(kAtBlock); }

  struct Gift {
    std::array<std::uint32_t, 8> words{};
    const std::uint16_t* row = nullptr;
  };
  /// Gives one thing to the warp, and returns those of all lanes when all have come.
  const std::array<Gift, 32>& exchange(const Gift& gift) {
    auto& fiber = fibers_[static_cast<std::size_t>(running_)];
    auto& table = gifts_[static_cast<std::size_t>(running_ / 32)][fiber.round++ % 2];
    table[static_cast<std::size_t>(running_ % 32)] = gift;
    pause(kAtWarp);
    return table;
  }

 private:
  enum State { kReady, kAtWarp, kAtBlock, kEnded };
  struct Fiber {
    ucontext_t context{};
    State state = kReady;
    unsigned round = 0;
  };
  static constexpr std::size_t kStackBytes = 128 * 1024;

  // Kept from block to block.
  static char* stack(std::size_t number) {
    thread_local std::vector<std::unique_ptr<char[]>> stacks;
    while (stacks.size() <= number) stacks.emplace_back(new char[kStackBytes]);
    return stacks[number].get();
  }
  void start(Fiber& fiber, char* stack_of_fiber) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack_of_fiber;
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = &scheduler_;
    makecontext(&fiber.context, &EmulatedBlock::enter, 0);
  }
  static void enter() {
    auto* block = current();
    (*block->body_)();
    block->fibers_[static_cast<std::size_t>(block->running_)].state = kEnded;
  }
  void pause(State state) {
    auto& fiber = fibers_[static_cast<std::size_t>(running_)];
    fiber.state = state;
    swapcontext(&fiber.context, &scheduler_);
  }

  // Runs every warp until its lanes wait for the block or have ended; whether any still waits.
  bool run_warps() {
    bool waiting = false;
    for (std::size_t first = 0; first < fibers_.size(); first += 32) {
      std::array<int, 4> in_state{};
      do {
        in_state = run_lanes(first);
        if (in_state[kAtWarp] != 0 && in_state[kAtWarp] != 32) {
          throw std::logic_error("lanes of a warp part ways before an instruction of the warp");
        }
        if (in_state[kAtWarp] == 32) {
          for (std::size_t i = 0; i < 32; ++i) fibers_[first + i].state = kReady;
        }
      } while (in_state[kAtWarp] == 32);
      waiting = waiting || in_state[kAtBlock] != 0;
    }
    return waiting;
  }
  std::array<int, 4> run_lanes(std::size_t first) {
    std::array<int, 4> in_state{};
    for (std::size_t i = first; i < first + 32; ++i) {
      running_ = static_cast<int>(i);
      if (fibers_[i].state == kReady) swapcontext(&scheduler_, &fibers_[i].context);
      ++in_state[fibers_[i].state];
    }
    return in_state;
  }

  int index_;
  int row_;
  int count_;
  int running_ = 0;
  std::vector<std::array<std::uint64_t, 2>> shared_;
  std::vector<Fiber> fibers_;
  std::array<std::array<std::array<Gift, 32>, 2>, 32> gifts_{};
  const std::function<void()>* body_ = nullptr;
  ucontext_t scheduler_{};
};

inline int thread_index() { return EmulatedBlock::current()->thread(); }
inline int block_index() { return EmulatedBlock::current()->index(); }
inline int block_row() { return EmulatedBlock::current()->row(); }
inline int block_count() { return EmulatedBlock::current()->count(); }
inline void sync_threads() { EmulatedBlock::current()->meet_block(); }
inline unsigned char* shared_memory() { return EmulatedBlock::current()->shared(); }
inline void wait_for_previous_kernel() {}
inline void let_next_kernel_begin() {}

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline float low_half(std::uint32_t both) { return float_of(both << 16); }
inline float high_half(std::uint32_t both) { return float_of(both & 0xffff0000U); }
// To the nearest bf16, ties to even.
inline std::uint32_t half_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  if (value != value) return 0x7fff;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
inline std::uint32_t pack(float low, float high) {
  return half_bits(low) | (half_bits(high) << 16);
}

inline std::uint32_t pack_relu(float low, float high) {
  return pack(low < 0 ? 0 : low, high < 0 ? 0 : high);
}

inline float shuffle_xor(float value, int mask) {
  auto* block = EmulatedBlock::current();
  const auto lane = static_cast<std::size_t>((block->thread() % 32) ^ mask);
  return float_of(block->exchange({{bits_of(value)}, nullptr})[lane].words[0]);
}
inline void atomic_add(long long* sum, long long value) {
  *sum = static_cast<long long>(static_cast<unsigned long long>(*sum) +
                                static_cast<unsigned long long>(value));
}
inline void atomic_mark(int* flag) { *flag |= 1; }

inline void load_matrices(std::uint32_t (&to)[4], const std::uint16_t* row) {
  auto* block = EmulatedBlock::current();
  const auto lane = static_cast<std::size_t>(block->thread() % 32);
  const auto& gifts = block->exchange({{}, row});
  for (std::size_t i = 0; i < 4; ++i) {
    const auto* from = gifts[i * 8 + lane / 4].row + lane % 4 * 2;
    to[i] = from[0] | (static_cast<std::uint32_t>(from[1]) << 16);
  }
}
inline void load_matrices_transposed(std::uint32_t (&to)[4], const std::uint16_t* row) {
  auto* block = EmulatedBlock::current();
  const auto lane = static_cast<std::size_t>(block->thread() % 32);
  const auto& gifts = block->exchange({{}, row});
  for (std::size_t i = 0; i < 4; ++i) {
    const auto* first = gifts[i * 8 + lane % 4 * 2].row;
    const auto* second = gifts[i * 8 + lane % 4 * 2 + 1].row;
    to[i] = first[lane / 4] | (static_cast<std::uint32_t>(second[lane / 4]) << 16);
  }
}
inline void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                         std::uint32_t b1) {
  auto* block = EmulatedBlock::current();
  const auto lane = static_cast<std::size_t>(block->thread() % 32);
  const auto& gifts = block->exchange({{a[0], a[1], a[2], a[3], b0, b1}, nullptr});
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t row = lane / 4 + (i / 2) * 8;
    const std::size_t column = lane % 4 * 2 + i % 2;
    float total = 0;
    for (std::size_t k = 0; k < 16; k += 2) {
      const auto left = gifts[row % 8 * 4 + k % 8 / 2].words[row / 8 + k / 8 * 2];
      const auto right = gifts[column * 4 + k % 8 / 2].words[4 + k / 8];
      total += low_half(left) * low_half(right) + high_half(left) * high_half(right);
    }
    sum[i] += total;
  }
}

inline long long round_to_integer(float value) { return std::llrint(value); }
inline float reciprocal_square_root(float value) { return 1 / std::sqrt(value); }
inline float fused_multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
inline float not_a_number() { return std::nanf(""); }

}  // namespace muster::device
