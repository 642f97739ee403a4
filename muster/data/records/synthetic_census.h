#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// Made-up people in the 15 columns of the Census Income data, whose income follows a known law:
/// what a model can reach at best is known exactly.
struct SyntheticCensus {
  /// CSV rows without line ends, laid out as adult.data.csv.
  std::vector<std::string> rows{};
  /// 1 for ">50K", the last field of the row.
  std::vector<std::uint8_t> labels{};
  /// The probability that the label was drawn with.
  std::vector<double> probabilities{};

  /// The area under the ROC curve of the true probabilities over these rows: no model that has not
  /// seen the labels is expected to do better.
  double best_auc() const;
};

/// The same seed gives the same rows on every machine, and row i does not depend on how many there
/// are.
SyntheticCensus make_synthetic_census(std::size_t rows, std::uint64_t seed);

struct SyntheticCensusOptions {
  std::size_t train = 32'561;
  std::size_t test = 16'281;
  std::uint64_t seed = 1;
};

/// A file of such people.
struct SyntheticCensusFile {
  Path path{};
  std::size_t rows = 0;
  double best_auc = 0;
};

struct SyntheticCensusFiles {
  SyntheticCensusFile train{};
  SyntheticCensusFile test{};
};

/// Writes adult.data.csv and adult.test.csv to `folder`, which is made if it is missing. Training
/// and test rows come from different streams: neither changes when the other grows.
SyntheticCensusFiles write_synthetic_census(const Path& folder,
                                            const SyntheticCensusOptions& options = {});

/// The exact area under the ROC curve: the share of (positive, negative) pairs that the scores
/// order rightly, a tie counting half. Throws InvalidArgument when sizes differ or a class is
/// missing.
double exact_auc(std::span<const double> scores, std::span<const std::uint8_t> labels);

}  // namespace muster
