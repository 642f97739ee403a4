#include "made_data.h"

#include <fmt/core.h>

#include <fstream>

namespace {

/// Points inside of a circle, in a ring around it, or outside.
void write_rows(const muster::Path& file, std::uint64_t seed, int count) {
  muster::Random random(seed);
  std::ofstream out(file);
  for (int i = 0; i < count; ++i) {
    const double x = random.uniform(-1, 1);
    const double y = random.uniform(-1, 1);
    const double square = x * x + y * y;
    out << fmt::format("{:.4f},{:.4f},{}\n", x, y, square < 0.25 ? 0 : square < 0.8 ? 1 : 2);
  }
}

}  // namespace

MadeData make_data(const muster::Path& folder) {
  MadeData data{.train = folder / "train.csv",
                .eval = folder / "eval.csv",
                .test = folder / "test.csv",
                .num_epochs = 10,
                .more_than = 0.9};
  write_rows(data.train, 1, 1000);
  write_rows(data.eval, 2, 1000);
  write_rows(data.test, 3, 1000);
  return data;
}
