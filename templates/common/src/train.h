#pragma once

#include "model.h"
#include "muster/muster.h"

/// Options of the program; task.cpp has its flags, model.cpp those of the model.
struct Options {
  std::vector<std::string> train_files, eval_files, test_files;
  double num_epochs = 1;
  std::size_t train_batch_size = 32;
  std::size_t eval_batch_size = 32;
  std::string export_path;
  ModelOptions model{};
  muster::RunFlags run{};
};

/// Trains, evaluates, exports, and predicts over the test files. In a cluster every task calls it;
/// what comes after training is done by the one that evaluates. Returns that task's metrics.
muster::EvaluationResult train(const Options& options);
