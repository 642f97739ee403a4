#include "muster/data/records/synthetic_reviews.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string_view>

#include "muster/base/random.h"

namespace muster {
namespace {

constexpr std::array<std::string_view, 12> kSubjects{
    "food",   "service", "soup", "dessert", "waiter",    "caf\u00e9",
    "coffee", "music",   "menu", "terrace", "wine list", "cr\u00e8me br\u00fbl\u00e9e"};
constexpr std::array<std::string_view, 4> kVerbs{"was", "is", "seemed", "looked"};
constexpr std::array<std::string_view, 10> kPraise{
    "good", "great",    "excellent", "delicious", "wonderful",
    "warm", "generous", "charming",  "pleasant",  "remarkable"};
constexpr std::array<std::string_view, 10> kBlame{
    "bad",  "awful", "terrible", "tasteless",  "dreadful",
    "cold", "stale", "slow",     "unpleasant", "disappointing"};
constexpr std::array<std::string_view, 6> kPlain{"", "", "really ", "very ", "quite ", "so "};
constexpr std::array<std::string_view, 4> kTurned{"not ", "never ", "hardly ", "anything but "};
constexpr std::array<std::string_view, 4> kEnds{".", "!", "...", ""};

template <std::size_t N>
std::string_view one_of(const std::array<std::string_view, N>& words, Random& random) {
  return words[random.below(N)];
}

// "the soup was not good": praise or blame, as `praises` says.
std::string opinion(bool praises, Random& random) {
  const bool turned = random.below(4) == 0;
  std::string text = random.below(2) == 1 ? "the " : "their ";
  text.append(one_of(kSubjects, random)).append(" ").append(one_of(kVerbs, random)).append(" ");
  text.append(turned ? one_of(kTurned, random) : one_of(kPlain, random));
  return text.append(praises == turned ? one_of(kBlame, random) : one_of(kPraise, random));
}

std::string review(bool praises, Random& random) {
  std::string text = opinion(praises, random);
  switch (random.below(4)) {
    case 0:
      break;
    case 1:
      text.append(" and ").append(opinion(praises, random));
      break;
    case 2:
      text.insert(0, opinion(!praises, random) + ", but ");
      break;
    default:
      text.append(", although ").append(opinion(!praises, random));
  }
  text[0] = 'T';
  return text.append(one_of(kEnds, random));
}

template <std::size_t N>
void add_words(const std::array<std::string_view, N>& words, std::vector<std::string>& tokens) {
  for (const auto word : words) {
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t end = std::min(word.find(' ', at), word.size());
      if (end > at) tokens.emplace_back(word.substr(at, end - at));
      at = end + 1;
    }
  }
}

}  // namespace

double SyntheticReviews::best_accuracy() const {
  const double right = std::inner_product(labels.begin(), labels.end(), opinions.begin(), 0.0,
                                          std::plus<>(), std::equal_to<>());
  return labels.empty() ? 0 : right / static_cast<double>(labels.size());
}

SyntheticReviews make_synthetic_reviews(const SyntheticReviewOptions& options) {
  SyntheticReviews reviews;
  for (std::size_t i = 0; i < options.count; ++i) {
    Random random(options.seed, 0, i);
    const bool praises = random.below(2) == 1;
    const bool turned = random.coin(options.label_noise);
    reviews.texts.push_back(review(praises, random));
    reviews.opinions.push_back(praises ? 1 : 0);
    reviews.labels.push_back(praises != turned ? 1 : 0);
  }
  return reviews;
}

std::string synthetic_review_vocabulary() {
  std::vector<std::string> tokens{"[PAD]", "[UNK]",  "[CLS]", "[SEP]", ".",   ",",
                                  "!",     "the",    "their", "and",   "but", "although",
                                  "un",    "##less", "##ful", "##ing"};
  add_words(kVerbs, tokens);
  add_words(kPlain, tokens);
  add_words(kTurned, tokens);
  add_words(kPraise, tokens);
  for (const char* word : {"bad",  "awful",      "terrible",   "taste",  "dread",   "cold", "stale",
                           "slow", "##pleasant", "disappoint", "food",   "service", "soup", "wine",
                           "list", "waiter",     "cafe",       "coffee", "music",   "menu", "creme",
                           "br",   "##ulee",     "terr",       "##ace"}) {
    tokens.emplace_back(word);
  }
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    tokens.emplace_back(1, letter);
    tokens.push_back(std::string("##") + letter);
  }
  std::string lines;
  for (auto token = tokens.begin(); token != tokens.end(); ++token) {
    if (std::find(tokens.begin(), token, *token) == token) lines.append(*token).append("\n");
  }
  return lines;
}

}  // namespace muster
