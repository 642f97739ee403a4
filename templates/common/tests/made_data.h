#pragma once

#include "muster/muster.h"

/// Data that is small and easy to learn, and what training on it has to reach.
struct MadeData {
  muster::Path train{}, eval{}, test{};
  double num_epochs = 1;
  std::string metric = "accuracy";
  double more_than = 0.5;
};

/// Writes it into `folder`, which is there.
MadeData make_data(const muster::Path& folder);
