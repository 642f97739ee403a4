#include <cstdio>

#include "muster/base/random.h"
#include "muster/data/dataset/dataset.h"

int main() {
  long sum = 0;
  auto numbers = muster::range(10).map([](std::int64_t n) { return n * n; });
  for (auto reader = numbers.iterate(); auto value = reader->next();) sum += *value;
  std::printf("%ld\n", sum);
  return sum == 285 ? 0 : 1;
}
