#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/random.h"
#include "muster/orchestration/tuning/searchers_internal.h"

namespace muster::tuning {
namespace {

// Streams of the seed's random numbers.
constexpr std::uint64_t kRandomPart = 1;
constexpr std::uint64_t kHaltonPart = 2;

std::vector<std::uint64_t> first_primes(std::size_t count) {
  std::vector<std::uint64_t> primes;
  for (std::uint64_t number = 2; primes.size() < count; ++number) {
    const bool is_prime = std::none_of(primes.begin(), primes.end(),
                                       [&](std::uint64_t prime) { return number % prime == 0; });
    if (is_prime) primes.push_back(number);
  }
  return primes;
}

// All digits that a double can tell apart are permuted, those after the last digit of the number
// too: the point 0 is as random as any other.
double scrambled_radical_inverse(std::uint64_t number, std::uint64_t base, std::uint64_t key) {
  double inverse = 0;
  double scale = 1;
  for (std::uint64_t place = 0; scale > std::numeric_limits<double>::epsilon() / 2; ++place) {
    scale /= static_cast<double>(base);
    const Permutation permutation(base, derive_key(key, base, place));
    inverse += static_cast<double>(permutation(number % base)) * scale;
    number /= base;
  }
  return std::min(inverse, std::nextafter(1.0, 0.0));
}

}  // namespace

Point halton_point(std::size_t dimensions, std::uint64_t number, std::uint64_t seed) {
  const auto primes = first_primes(dimensions);
  Point point(dimensions);
  for (std::size_t i = 0; i < dimensions; ++i) {
    point[i] = scrambled_radical_inverse(number, primes[i], derive_key(seed, kHaltonPart));
  }
  return point;
}

Point random_point(std::size_t dimensions, std::uint64_t number, std::uint64_t seed) {
  Random random(seed, kRandomPart, number);
  Point point(dimensions);
  for (double& coordinate : point) coordinate = random.uniform();
  return point;
}

}  // namespace muster::tuning
