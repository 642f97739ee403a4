#include "muster/base/suggestion.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Suggestion, IsTheWordWithTheFewestTypingErrors) {
  const std::vector<std::string> flags = {"--eval-steps", "--train-steps", "--train-files",
                                          "--seed"};
  EXPECT_EQ(nearest_word("--trian-steps", flags), "--train-steps");
  EXPECT_EQ(nearest_word("--train_file", flags), "--train-files");
  EXPECT_EQ(nearest_word("--SEED", flags), "--seed");
  EXPECT_EQ(nearest_word("sho", {"write", "show", "synth"}), "show");
}

TEST(Suggestion, IsNothingForAnotherWord) {
  EXPECT_EQ(nearest_word("foo", {"records", "model"}), std::nullopt);
  EXPECT_EQ(nearest_word("", {"records", "model"}), std::nullopt);
  EXPECT_EQ(nearest_word("---", {"records"}), std::nullopt);
  EXPECT_EQ(nearest_word(std::string(1'000'000, 'a'), {"records"}), std::nullopt);
  EXPECT_EQ(did_you_mean("records", {}), "");
}

TEST(Suggestion, EndsASentence) {
  EXPECT_EQ(did_you_mean("recrods", {"records"}), "; did you mean records?");
}

}  // namespace
}  // namespace muster
