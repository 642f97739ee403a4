// A Google Cloud Storage in memory for scripts: prints what STORAGE_EMULATOR_HOST is to be, and
// ends with its standard input.
#include <fmt/core.h>

#include <cstdio>

#include "muster/testing/fake_gcs.h"

int main() {
  const muster::testing::FakeGcs store;
  fmt::print("{}\n", store.url());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}
