// Runs one fuzz target on seeded mutants of its seeds: the same inputs on every machine, so a
// failure can be had again by number. NAME_mutation_test [--mutants N] [--seed S] [--only I]
// MUSTER_LONG_TESTS=1 runs more of them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz.h"
#include "muster/base/random.h"
#include "muster/testing/long_tests.h"

#ifndef MUSTER_DEFAULT_MUTANTS
#define MUSTER_DEFAULT_MUTANTS 100'000
#endif

// As g++ and as clang tell of a sanitizer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MUSTER_COUNT_ALLOCATIONS 0
#elif defined(__has_feature)
#define MUSTER_COUNT_ALLOCATIONS \
  !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define MUSTER_COUNT_ALLOCATIONS 1
#endif

namespace {

// Bytes of operator new that are not freed, and their peak since the last reset.
std::size_t g_outstanding = 0;
std::size_t g_peak = 0;
// Bytes that headers of this mutant declare.
std::size_t g_declared = 0;
// Over all mutants: the most that one has taken, and its size.
std::size_t g_most = 0;
std::size_t g_most_of = 0;

constexpr std::uint64_t kMostDeclared = std::uint64_t{64} << 20;

}  // namespace

void muster::fuzz::allow_memory(std::uint64_t declared_bytes) {
  const std::uint64_t declared = std::min(declared_bytes, kMostDeclared);
  g_declared = std::max(g_declared, static_cast<std::size_t>(declared));
}

#if MUSTER_COUNT_ALLOCATIONS
// Each block carries its size in front, 16 bytes for alignment. A sanitizer build keeps its own
// operators.
void* operator new(std::size_t size) {
  auto* block = static_cast<char*>(std::malloc(size + 16));
  if (block == nullptr) throw std::bad_alloc();
  std::memcpy(block, &size, sizeof(size));
  const std::size_t now = __atomic_add_fetch(&g_outstanding, size, __ATOMIC_RELAXED);
  if (now > g_peak) g_peak = now;
  return block + 16;
}
void operator delete(void* pointer) noexcept {
  if (pointer == nullptr) return;
  char* block = static_cast<char*>(pointer) - 16;
  std::size_t size = 0;
  std::memcpy(&size, block, sizeof(size));
  __atomic_sub_fetch(&g_outstanding, size, __ATOMIC_RELAXED);
  std::free(block);
}
void operator delete(void* pointer, std::size_t) noexcept { operator delete(pointer); }
#endif

namespace {

using muster::Random;

struct Flags {
  std::optional<std::uint64_t> mutants{};
  std::uint64_t seed = 1;
  std::int64_t only = -1;
};

std::uint64_t number_after(int argc, char** argv, int& i) {
  if (i + 1 >= argc) {
    std::fprintf(stderr, "%s needs a number\n", argv[i]);
    std::exit(2);
  }
  return std::strtoull(argv[++i], nullptr, 10);
}

// MUSTER_MUTANTS sets the number for a whole run of the tests.
Flags parse_flags(int argc, char** argv) {
  Flags flags;
  if (const char* mutants = std::getenv("MUSTER_MUTANTS")) {
    flags.mutants = std::strtoull(mutants, nullptr, 10);
  }
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--mutants") {
      flags.mutants = number_after(argc, argv, i);
    } else if (flag == "--seed") {
      flags.seed = number_after(argc, argv, i);
    } else if (flag == "--only") {
      flags.only = static_cast<std::int64_t>(number_after(argc, argv, i));
    } else {
      std::fprintf(stderr, "usage: %s [--mutants N] [--seed S] [--only I]\n", argv[0]);
      std::exit(2);
    }
  }
  return flags;
}

std::size_t place(Random& random, const std::string& bytes) {
  return static_cast<std::size_t>(random.below(bytes.size() + 1));
}

// Numbers that parsers trip over, as little- or big-endian bytes of 1, 2, 4 or 8.
std::string interesting_number(Random& random) {
  constexpr std::uint64_t kValues[] = {0,          1,          0x7f,   0x80,
                                       0xff,       0x7fff,     0xffff, 0x7fffffff,
                                       0x80000000, 0xffffffff, ~0ULL,  1ULL << 63};
  const std::uint64_t value = kValues[random.below(std::size(kValues))] + random.below(3) - 1;
  std::string bytes(std::size_t{1} << random.below(4), '\0');
  const bool big_endian = random.coin();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t shift = 8 * (big_endian ? bytes.size() - 1 - i : i);
    bytes[i] = static_cast<char>(value >> shift);
  }
  return bytes;
}

void mutate_once(Random& random, std::string& bytes, const std::vector<std::string>& seeds) {
  const std::size_t at = place(random, bytes);
  const std::size_t length = static_cast<std::size_t>(random.below(1 + random.below(64)));
  switch (random.below(9)) {
    case 0:  // flip a bit
      if (!bytes.empty()) {
        char& byte = bytes[at % bytes.size()];
        byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << random.below(8)));
      }
      break;
    case 1:  // a random byte
      if (!bytes.empty()) bytes[at % bytes.size()] = static_cast<char>(random.next_u32());
      break;
    case 2:  // tear the tail off
      bytes.resize(at);
      break;
    case 3:  // cut a piece out
      bytes.erase(at, length);
      break;
    case 4:  // repeat a piece
      bytes.insert(at, bytes.substr(place(random, bytes), length));
      break;
    case 5: {  // a number that hurts
      const std::string number = interesting_number(random);
      if (at + number.size() <= bytes.size()) bytes.replace(at, number.size(), number);
      break;
    }
    case 6: {  // a piece of another seed
      const std::string& other = seeds[random.below(seeds.size())];
      const std::size_t from = place(random, other);
      bytes.insert(at, other.substr(from, length));
      break;
    }
    case 7:  // random bytes
      for (std::size_t i = 0; i < length % 8; ++i) {
        bytes.insert(at, 1, static_cast<char>(random.next_u32()));
      }
      break;
    default:  // a run of one byte
      bytes.insert(at, length, static_cast<char>(random.next_u32()));
      break;
  }
}

std::string mutant(std::uint64_t seed, std::uint64_t number,
                   const std::vector<std::string>& seeds) {
  Random random(seed, 0, number);
  std::string bytes = seeds[number % seeds.size()];
  if (number < seeds.size()) return bytes;  // The seeds themselves come first.
  const std::uint64_t times = 1 + random.below(4);
  for (std::uint64_t i = 0; i < times; ++i) mutate_once(random, bytes, seeds);
  return bytes;
}

bool within_memory(std::uint64_t number, std::size_t input_bytes, std::size_t before) {
  const auto bound = muster::fuzz::memory_bound();
  const std::size_t taken = g_peak - before;
  const std::size_t allowed =
      bound.base_bytes + bound.bytes_per_input_byte * input_bytes + g_declared;
  if (taken > g_most) {
    g_most = taken;
    g_most_of = input_bytes;
  }
  if (taken <= allowed) return true;
  std::fprintf(stderr, "mutant %llu of %zu bytes took %zu bytes of memory, %zu are allowed\n",
               static_cast<unsigned long long>(number), input_bytes, taken, allowed);
  return false;
}

// A fifth of those of a long test, but never the seeds alone.
std::uint64_t default_mutants(std::size_t seeds) {
  constexpr std::uint64_t kAll = MUSTER_DEFAULT_MUTANTS;
  return muster::testing::are_tests_long() ? kAll : std::max<std::uint64_t>(kAll / 5, 2 * seeds);
}

}  // namespace

int main(int argc, char** argv) {
  const Flags flags = parse_flags(argc, argv);
  const std::vector<std::string> seeds = muster::fuzz::seeds();
  if (seeds.empty()) {
    std::fprintf(stderr, "the target has no seeds\n");
    return 1;
  }
  const bool one = flags.only >= 0;
  const std::uint64_t first = one ? static_cast<std::uint64_t>(flags.only) : 0;
  const std::uint64_t end = one ? first + 1 : flags.mutants.value_or(default_mutants(seeds.size()));
  for (std::uint64_t number = first; number < end; ++number) {
    const std::string bytes = mutant(flags.seed, number, seeds);
    g_declared = 0;
    const std::size_t before = g_peak = g_outstanding;
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    if (!within_memory(number, bytes.size(), before)) return 1;
  }
  std::printf("%llu mutants of %zu seeds: no crash, no hang, memory in bounds, ",
              static_cast<unsigned long long>(end - first), seeds.size());
  std::printf("at most %zu bytes for one of %zu\n", g_most, g_most_of);
  return 0;
}
