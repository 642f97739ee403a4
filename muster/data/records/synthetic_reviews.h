#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster {

/// Made-up reviews of restaurants with labels, 1 for those that praise. Which words occur does not
/// tell the label: "not good" blames, and of two opinions the one after "but" counts. A few labels
/// are wrong on purpose, so what a model can reach is known.
struct SyntheticReviews {
  std::vector<std::string> texts{};
  std::vector<std::uint8_t> labels{};
  /// Whether the review praises, which the label says except for the noise.
  std::vector<std::uint8_t> opinions{};

  std::size_t size() const { return labels.size(); }
  /// The share of right labels: the accuracy of a model that understands every review.
  double best_accuracy() const;
};

struct SyntheticReviewOptions {
  std::size_t count = 0;
  std::uint64_t seed = 0;
  /// The share of labels that are turned round.
  double label_noise = 0.02;
};

/// The same options give the same bytes on every machine, and review i does not depend on how many
/// there are.
SyntheticReviews make_synthetic_reviews(const SyntheticReviewOptions& options);

/// A word-piece vocabulary for such reviews, a token per line: special tokens, signs, frequent
/// words, beginnings and endings of others, letters.
std::string synthetic_review_vocabulary();

}  // namespace muster
