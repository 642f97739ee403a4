#include "muster/data/records/synthetic_reviews.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <string_view>

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SyntheticReviews, AreTheSameForASeedWhateverTheirNumber) {
  const auto few = make_synthetic_reviews({.count = 3, .seed = 5});
  const auto many = make_synthetic_reviews({.count = 1000, .seed = 5});
  ASSERT_EQ(few.size(), 3U);
  for (std::size_t i = 0; i < few.size(); ++i) EXPECT_EQ(few.texts[i], many.texts[i]);
  EXPECT_NEAR(many.best_accuracy(), 0.98, 0.02);
  EXPECT_NE(make_synthetic_reviews({.count = 1, .seed = 6}).texts,
            make_synthetic_reviews({.count = 1, .seed = 5}).texts);
  EXPECT_GT(std::set(many.texts.begin(), many.texts.end()).size(), 900U);
}

bool blames(std::string_view text) {
  // The part that counts: after "but", or before "although".
  if (const auto but = text.find(", but "); but != text.npos) text.remove_prefix(but + 6);
  text = text.substr(0, text.find(", although "));
  bool blame = false;
  for (const auto* word : {"bad", "awful", "terrible", "tasteless", "dreadful", "cold", "stale",
                           "slow", "unpleasant", "disappointing"}) {
    blame = blame || text.find(word) != text.npos;
  }
  bool turned = false;
  for (const auto* word : {"not ", "never ", "hardly ", "anything but "}) {
    turned = turned || text.find(word) != text.npos;
  }
  return blame != turned;
}

TEST(SyntheticReviews, SayWhatTheirLabelsSay) {
  const auto reviews = make_synthetic_reviews({.count = 500, .seed = 1, .label_noise = 0});
  EXPECT_EQ(reviews.best_accuracy(), 1);
  for (std::size_t i = 0; i < reviews.size(); ++i) {
    // "good and not bad" has one turned half: only single opinions are looked at here.
    if (reviews.texts[i].find(" and ") != std::string::npos) continue;
    EXPECT_EQ(reviews.labels[i] == 0, blames(reviews.texts[i])) << reviews.texts[i];
  }
}

TEST(SyntheticReviews, HaveAVocabularyWithoutRepetitions) {
  const std::string vocabulary = synthetic_review_vocabulary();
  EXPECT_THAT(vocabulary, StartsWith("[PAD]\n[UNK]\n[CLS]\n[SEP]\n"));
  EXPECT_THAT(vocabulary, HasSubstr("\n##pleasant\n"));
  std::set<std::string> seen;
  for (std::size_t at = 0; at < vocabulary.size();) {
    const auto end = vocabulary.find('\n', at);
    EXPECT_TRUE(seen.insert(vocabulary.substr(at, end - at)).second);
    at = end + 1;
  }
}

}  // namespace
}  // namespace muster
