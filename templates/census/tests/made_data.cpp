#include "made_data.h"

MadeData make_data(const muster::Path& folder) {
  const auto people = muster::write_synthetic_census(folder, {.train = 2000, .test = 1000});
  return {.train = people.train.path,
          .eval = people.test.path,
          .test = people.test.path,
          .num_epochs = 5,
          .metric = "auc",
          .more_than = 0.85};
}
