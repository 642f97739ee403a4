#include "muster/data/records/synthetic_census.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster {
namespace {

// All draws are integers over integer weights and all log-odds are eighths: floating point, whose
// last bit differs between machines, decides nothing.

struct Choice {
  std::string_view value;
  std::uint32_t weight;
};

template <std::size_t N>
std::string_view draw(Random& random, const std::array<Choice, N>& choices) {
  std::uint64_t total = 0;
  for (const auto& choice : choices) total += choice.weight;
  std::uint64_t at = random.below(total);
  for (const auto& choice : choices) {
    if (at < choice.weight) return choice.value;
    at -= choice.weight;
  }
  throw Internal("a draw beyond its weights");
}

bool one_in_thousand(Random& random, std::uint64_t times) { return random.below(1000) < times; }

// Weights near the marginals of the real data.
constexpr std::array<Choice, 9> kWorkclasses{{{"Private", 697},
                                              {"Self-emp-not-inc", 78},
                                              {"Local-gov", 64},
                                              {"?", 56},
                                              {"State-gov", 40},
                                              {"Self-emp-inc", 34},
                                              {"Federal-gov", 29},
                                              {"Without-pay", 1},
                                              {"Never-worked", 1}}};

struct Education {
  std::string_view name;
  int number;
  std::uint32_t weight;
};
constexpr std::array<Education, 16> kEducations{{{"HS-grad", 9, 3225},
                                                 {"Some-college", 10, 2239},
                                                 {"Bachelors", 13, 1645},
                                                 {"Masters", 14, 529},
                                                 {"Assoc-voc", 11, 424},
                                                 {"11th", 7, 361},
                                                 {"Assoc-acdm", 12, 328},
                                                 {"10th", 6, 287},
                                                 {"7th-8th", 4, 198},
                                                 {"Prof-school", 15, 177},
                                                 {"9th", 5, 158},
                                                 {"12th", 8, 133},
                                                 {"Doctorate", 16, 127},
                                                 {"5th-6th", 3, 102},
                                                 {"1st-4th", 2, 52},
                                                 {"Preschool", 1, 16}}};

constexpr std::array<Choice, 14> kOccupationsOfDegrees{{{"Prof-specialty", 380},
                                                        {"Exec-managerial", 260},
                                                        {"Sales", 110},
                                                        {"Adm-clerical", 90},
                                                        {"Tech-support", 35},
                                                        {"Craft-repair", 40},
                                                        {"Other-service", 35},
                                                        {"Protective-serv", 16},
                                                        {"Machine-op-inspct", 12},
                                                        {"Farming-fishing", 12},
                                                        {"Transport-moving", 9},
                                                        {"Handlers-cleaners", 8},
                                                        {"Armed-Forces", 1},
                                                        {"Priv-house-serv", 1}}};
constexpr std::array<Choice, 14> kOtherOccupations{{{"Craft-repair", 180},
                                                    {"Adm-clerical", 145},
                                                    {"Other-service", 140},
                                                    {"Sales", 120},
                                                    {"Machine-op-inspct", 90},
                                                    {"Exec-managerial", 85},
                                                    {"Transport-moving", 72},
                                                    {"Handlers-cleaners", 62},
                                                    {"Prof-specialty", 45},
                                                    {"Farming-fishing", 42},
                                                    {"Tech-support", 30},
                                                    {"Protective-serv", 23},
                                                    {"Priv-house-serv", 7},
                                                    {"Armed-Forces", 1}}};

constexpr std::array<Choice, 7> kMaritalOfYoung{{{"Never-married", 850},
                                                 {"Married-civ-spouse", 110},
                                                 {"Divorced", 20},
                                                 {"Separated", 12},
                                                 {"Married-spouse-absent", 6},
                                                 {"Married-AF-spouse", 1},
                                                 {"Widowed", 1}}};
constexpr std::array<Choice, 7> kMaritalOfMen{{{"Married-civ-spouse", 700},
                                               {"Never-married", 160},
                                               {"Divorced", 100},
                                               {"Separated", 20},
                                               {"Married-spouse-absent", 11},
                                               {"Widowed", 8},
                                               {"Married-AF-spouse", 1}}};
constexpr std::array<Choice, 7> kMaritalOfWomen{{{"Divorced", 300},
                                                 {"Never-married", 280},
                                                 {"Married-civ-spouse", 250},
                                                 {"Widowed", 90},
                                                 {"Separated", 60},
                                                 {"Married-spouse-absent", 19},
                                                 {"Married-AF-spouse", 1}}};

constexpr std::array<Choice, 4> kRelationsOfYoung{
    {{"Own-child", 560}, {"Not-in-family", 300}, {"Unmarried", 80}, {"Other-relative", 60}}};
constexpr std::array<Choice, 4> kRelationsOfSingles{
    {{"Not-in-family", 620}, {"Unmarried", 260}, {"Own-child", 80}, {"Other-relative", 40}}};

constexpr std::array<Choice, 5> kRaces{{{"White", 854},
                                        {"Black", 96},
                                        {"Asian-Pac-Islander", 32},
                                        {"Amer-Indian-Eskimo", 10},
                                        {"Other", 8}}};

constexpr std::array<Choice, 11> kCountries{{{"United-States", 8960},
                                             {"Mexico", 197},
                                             {"?", 179},
                                             {"Philippines", 61},
                                             {"Germany", 42},
                                             {"Canada", 37},
                                             {"India", 31},
                                             {"El-Salvador", 33},
                                             {"Cuba", 29},
                                             {"England", 28},
                                             {"China", 23}}};

constexpr std::array<int, 8> kGains{594, 2174, 3103, 4386, 5178, 7298, 7688, 15024};
constexpr std::array<int, 6> kLosses{1408, 1590, 1740, 1887, 1902, 1977};

struct Person {
  int age = 0;
  std::string_view workclass{};
  std::uint64_t fnlwgt = 0;
  Education education{};
  std::string_view marital_status{};
  std::string_view occupation{};
  std::string_view relationship{};
  std::string_view race{};
  bool female = false;
  int capital_gain = 0;
  int capital_loss = 0;
  int hours_per_week = 0;
  std::string_view native_country{};
};

/// 17 to 90, the smaller of two draws: many young, few old.
int draw_age(Random& random) {
  const std::uint64_t spread = one_in_thousand(random, 150) ? 74 : 62;
  const std::uint64_t one = random.below(spread);
  const std::uint64_t other = random.below(spread);
  return 17 + static_cast<int>(std::min(one, other));
}

Education draw_education(Random& random) {
  std::uint64_t total = 0;
  for (const auto& education : kEducations) total += education.weight;
  std::uint64_t at = random.below(total);
  for (const auto& education : kEducations) {
    if (at < education.weight) return education;
    at -= education.weight;
  }
  throw Internal("a draw beyond its weights");
}

std::string_view draw_marital_status(Random& random, const Person& person) {
  if (person.age < 26) return draw(random, kMaritalOfYoung);
  return person.female ? draw(random, kMaritalOfWomen) : draw(random, kMaritalOfMen);
}

std::string_view draw_relationship(Random& random, const Person& person) {
  if (person.marital_status == "Married-civ-spouse" && one_in_thousand(random, 960)) {
    return person.female ? "Wife" : "Husband";
  }
  return person.age < 26 ? draw(random, kRelationsOfYoung) : draw(random, kRelationsOfSingles);
}

std::string_view draw_occupation(Random& random, const Person& person) {
  if (person.workclass == "?" || person.workclass == "Never-worked") return "?";
  return person.education.number >= 13 ? draw(random, kOccupationsOfDegrees)
                                       : draw(random, kOtherOccupations);
}

int draw_hours(Random& random) {
  const std::uint64_t kind = random.below(100);
  if (kind < 47) return 40;
  if (kind < 64) return 10 + static_cast<int>(random.below(30));
  if (kind < 76) return 41 + static_cast<int>(random.below(9));
  if (kind < 90) return 50;
  return 55 + static_cast<int>(random.below(30));
}

Person draw_person(Random& random) {
  Person person;
  person.age = draw_age(random);
  person.workclass = draw(random, kWorkclasses);
  person.fnlwgt = 12'000 + random.below(180'000) + random.below(180'000);
  person.education = draw_education(random);
  person.female = one_in_thousand(random, 331);
  person.marital_status = draw_marital_status(random, person);
  person.occupation = draw_occupation(random, person);
  person.relationship = draw_relationship(random, person);
  person.race = draw(random, kRaces);
  const std::uint64_t gain_times = person.education.number >= 13 ? 140 : 65;
  if (one_in_thousand(random, gain_times))
    person.capital_gain = kGains[random.below(kGains.size())];
  if (person.capital_gain == 0 && one_in_thousand(random, 47)) {
    person.capital_loss = kLosses[random.below(kLosses.size())];
  }
  person.hours_per_week = draw_hours(random);
  person.native_country = draw(random, kCountries);
  return person;
}

// The law of income: log-odds in eighths, summed over the parts below.

int age_part(int age) {
  if (age < 22) return -26;
  if (age < 26) return -16;
  if (age < 30) return -6;
  if (age < 35) return 0;
  if (age < 40) return 4;
  if (age < 60) return 7;
  return age < 65 ? 2 : -5;
}

int occupation_part(std::string_view occupation) {
  constexpr std::array<std::pair<std::string_view, int>, 11> kParts{{{"Exec-managerial", 7},
                                                                     {"Prof-specialty", 5},
                                                                     {"Tech-support", 4},
                                                                     {"Protective-serv", 4},
                                                                     {"Sales", 2},
                                                                     {"Transport-moving", -1},
                                                                     {"Machine-op-inspct", -3},
                                                                     {"Handlers-cleaners", -6},
                                                                     {"Farming-fishing", -8},
                                                                     {"Other-service", -8},
                                                                     {"Priv-house-serv", -16}}};
  for (const auto& [name, part] : kParts) {
    if (name == occupation) return part;
  }
  return 0;
}

int hours_part(int hours) {
  if (hours < 30) return -10;
  if (hours < 40) return -4;
  if (hours == 40) return 0;
  return hours < 50 ? 3 : 6;
}

int capital_part(const Person& person) {
  if (person.capital_gain > 7000) return 44;
  if (person.capital_gain > 4000) return 6;
  return person.capital_loss > 1800 ? 14 : 0;
}

/// Log odds that no sum over single columns can express: crosses for the wide part, bends for the
/// deep part.
int interaction_part(const Person& person) {
  const bool degree = person.education.number >= 13;
  const bool married = person.marital_status == "Married-civ-spouse";
  int part = 0;
  if (degree && married) part += 7;
  if (degree && person.occupation == "Exec-managerial") part += 5;
  if (degree && person.occupation == "Other-service") part -= 6;
  if (person.education.number <= 9 && person.occupation == "Craft-repair") part += 5;
  if (person.relationship == "Wife") part += 6;
  if (person.workclass == "Self-emp-not-inc" && person.hours_per_week >= 50) part -= 7;
  if (person.workclass == "Self-emp-inc" && person.hours_per_week >= 50) part += 6;
  if (person.age >= 45 && !married) part -= 4;
  return part;
}

int log_odds_in_eighths(const Person& person) {
  constexpr int kBase = -27;
  const int married = person.marital_status == "Married-civ-spouse" ? 15 : 0;
  const int education = 3 * (person.education.number - 9);
  return kBase + age_part(person.age) + education + married + occupation_part(person.occupation) +
         hours_part(person.hours_per_week) + capital_part(person) + (person.female ? -3 : 0) +
         interaction_part(person);
}

/// Rounded to millionths, which are the same wherever exp() is good to more than that.
std::uint64_t probability_in_millionths(int eighths) {
  return static_cast<std::uint64_t>(std::llround(1e6 / (1.0 + std::exp(-eighths / 8.0))));
}

std::string to_csv(const Person& person, bool rich) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", person.age, person.workclass,
                     person.fnlwgt, person.education.name, person.education.number,
                     person.marital_status, person.occupation, person.relationship, person.race,
                     person.female ? "Female" : "Male", person.capital_gain, person.capital_loss,
                     person.hours_per_week, person.native_country, rich ? ">50K" : "<=50K");
}

}  // namespace

SyntheticCensus make_synthetic_census(std::size_t rows, std::uint64_t seed) {
  constexpr std::uint64_t kMillion = 1'000'000;
  SyntheticCensus census;
  census.rows.reserve(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    Random random(seed, /*epoch=*/0, i);
    const Person person = draw_person(random);
    const std::uint64_t millionths = probability_in_millionths(log_odds_in_eighths(person));
    const bool rich = random.below(kMillion) < millionths;
    census.rows.push_back(to_csv(person, rich));
    census.labels.push_back(rich ? 1 : 0);
    census.probabilities.push_back(static_cast<double>(millionths) / kMillion);
  }
  return census;
}

double SyntheticCensus::best_auc() const { return exact_auc(probabilities, labels); }

SyntheticCensusFiles write_synthetic_census(const Path& folder,
                                            const SyntheticCensusOptions& options) {
  file_system_for(folder).create_directories(folder);
  const auto write = [&](const char* name, std::size_t rows, std::uint64_t seed) {
    const SyntheticCensus census = make_synthetic_census(rows, seed);
    std::string text;
    for (const auto& row : census.rows) text += row + "\n";
    write_file_atomically(folder / name, text, /*durable=*/false);
    return SyntheticCensusFile{folder / name, rows, census.best_auc()};
  };
  return {.train = write("adult.data.csv", options.train, options.seed),
          .test = write("adult.test.csv", options.test, derive_key(options.seed, 1))};
}

double exact_auc(std::span<const double> scores, std::span<const std::uint8_t> labels) {
  if (scores.size() != labels.size()) {
    throw InvalidArgument("{} scores for {} labels", scores.size(), labels.size());
  }
  if (std::any_of(scores.begin(), scores.end(), [](double score) { return std::isnan(score); })) {
    throw InvalidArgument("a score is not a number");
  }
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  // Over groups of equal scores: each positive wins against the negatives below, and half of those
  // beside it.
  double half_wins = 0;
  std::size_t positives = 0;
  std::size_t negatives = 0;
  for (std::size_t i = 0; i < order.size();) {
    std::size_t group_positives = 0;
    std::size_t group_negatives = 0;
    const double score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i) {
      ++(labels[order[i]] != 0 ? group_positives : group_negatives);
    }
    half_wins += static_cast<double>(group_positives) *
                 (2.0 * static_cast<double>(negatives) + static_cast<double>(group_negatives));
    positives += group_positives;
    negatives += group_negatives;
  }
  if (positives == 0 || negatives == 0)
    throw InvalidArgument("an AUC needs labels of both classes");
  return half_wins / (2.0 * static_cast<double>(positives) * static_cast<double>(negatives));
}

}  // namespace muster
