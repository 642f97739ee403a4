#include "muster/base/flags/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Pair;

TEST(FlagSet, PutsValuesOfEveryKindWhereTheyBelong) {
  bool sync = true;
  int threads = 1;
  std::int64_t steps = 10;
  std::uint64_t seed = 0;
  double rate = 0.1;
  std::string name;
  std::vector<std::string> files, devices;
  std::optional<std::int64_t> gpus;
  std::optional<double> decay;
  FlagSet flags("Tries flags.");
  flags.add("--sync", &sync);
  flags.add("--threads", &threads);
  flags.add("--train-steps", &steps);
  flags.add("--seed", &seed);
  flags.add("--rate", &rate);
  flags.add("--job-dir,--model-dir", &name);
  flags.add("--files", &files);
  flags.add("--devices", &devices).separated_by(',');
  flags.add("--num-gpus", &gpus);
  flags.add("--decay", &decay);
  ASSERT_TRUE(flags.parse({"--sync", "False", "--threads=3", "--train_steps", "7", "--seed",
                           "18446744073709551615", "--rate", "1e-3", "--model_dir", "/x", "--files",
                           "a", "b", "--files", "c", "--devices", "cuda:0,cpu", "--num-gpus=0"}));
  EXPECT_FALSE(sync);
  EXPECT_EQ(threads, 3);
  EXPECT_EQ(steps, 7);
  EXPECT_EQ(seed, 18446744073709551615u);
  EXPECT_EQ(rate, 1e-3);
  EXPECT_EQ(name, "/x");
  EXPECT_THAT(files, ElementsAre("a", "b", "c"));
  EXPECT_THAT(devices, ElementsAre("cuda:0", "cpu"));
  EXPECT_EQ(gpus, 0);
  EXPECT_EQ(decay, std::nullopt);
  EXPECT_THAT(flags.values(),
              ElementsAre(Pair("sync", "false"), Pair("threads", "3"), Pair("train-steps", "7"),
                          Pair("seed", "18446744073709551615"), Pair("rate", "0.001"),
                          Pair("job-dir", "/x"), Pair("files", "a,b,c"),
                          Pair("devices", "cuda:0,cpu"), Pair("num-gpus", "0")));
  EXPECT_THAT(flags.hparams(),
              ElementsAre(Pair("devices", "cuda:0,cpu"), Pair("num_gpus", "0"),
                          Pair("rate", "0.001"), Pair("seed", "18446744073709551615"),
                          Pair("sync", "false"), Pair("threads", "3"), Pair("train_steps", "7")));
}

TEST(FlagSet, TheLastValueCounts) {
  std::int64_t steps = 10;
  FlagSet flags("Tries flags.");
  flags.add("--steps", &steps);
  ASSERT_TRUE(flags.parse({"--steps", "1", "--steps", "2"}));
  EXPECT_EQ(steps, 2);
}

TEST(FlagSet, RefusesWhatAFlagDoesNotTake) {
  std::int64_t steps = 10, layers = 0;
  double part = 0;
  std::string model = "deep", folder;
  FlagSet flags("Tries flags.");
  flags.add("--steps", &steps).positive();
  flags.add("--layers", &layers).not_negative();
  flags.add("--part", &part).between(0, 0.5);
  flags.add("--model", &model).one_of({"deep", "wide"});
  flags.add("--folder", &folder).required();
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--folder", "x"});
    EXPECT_THROW(flags.parse(words), UsageError);
    return message_of([&] { flags.parse(words); });
  };
  EXPECT_THAT(refusal({"--steps", "0"}), HasSubstr("--steps must be a number above 0: 0"));
  EXPECT_THAT(refusal({"--layers", "-1"}), HasSubstr("--layers must be a number of 0 or more: -1"));
  EXPECT_THAT(refusal({"--part", "0.7"}), HasSubstr("--part"));
  EXPECT_THAT(refusal({"--model", "tall"}), HasSubstr("--model"));
  EXPECT_THAT(refusal({"--trian"}), HasSubstr("unknown flag --trian"));
  EXPECT_THAT(message_of([&] { flags.parse(std::vector<std::string>{}); }), HasSubstr("--folder"));
}

TEST(FlagSet, RefusesANameTwice) {
  bool sync = true;
  FlagSet flags("Tries flags.");
  flags.add("--sync", &sync);
  EXPECT_THROW(flags.add("--sync", &sync), InvalidArgument);
}

TEST(FlagSet, AStandardFlagMakesWayForTheProgramsOwn) {
  std::int64_t standard = 1, own = 2, other = 3;
  FlagSet flags("Tries flags.");
  flags.add_standard("--steps", &standard).positive().not_in_hparams();
  flags.add_standard("--rounds", &other).not_in_hparams();
  flags.add("--steps", &own).not_negative();
  EXPECT_NO_THROW(flags.add_standard("--steps", &standard).positive());
  ASSERT_TRUE(flags.parse({"--steps", "0"}));
  EXPECT_EQ(standard, 1);
  EXPECT_EQ(own, 0);
  EXPECT_THAT(flags.values(), ElementsAre(Pair("rounds", "3"), Pair("steps", "0")));
  EXPECT_THAT(flags.hparams(), ElementsAre(Pair("steps", "0")));
}

TEST(FlagSet, TellsTheVersionUnlessTheProgramHasOne) {
  FlagSet flags("Tries flags.");
  ::testing::internal::CaptureStdout();
  EXPECT_FALSE(flags.parse({"--version"}));
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), ::testing::StartsWith("muster "));
  std::string version;
  FlagSet own("Tries flags.");
  own.add("--version", &version);
  EXPECT_TRUE(own.parse({"--version", "3"}));
  EXPECT_EQ(version, "3");
}

TEST(FlagSet, CallsActions) {
  std::optional<bool> said;
  FlagSet flags("Tries flags.");
  flags.add_action("--is-cpu-ps", [&](bool yes) { said = yes; });
  ASSERT_TRUE(flags.parse({"--is_cpu_ps", "False"}));
  EXPECT_EQ(said, false);
  ASSERT_TRUE(flags.parse({"--is-cpu-ps"}));
  EXPECT_EQ(said, true);
}

TEST(FlagSet, VerbositySetsTheLevelOfTheLog) {
  const auto before = log::level();
  FlagSet flags("Tries flags.");
  flags.add_verbosity();
  ASSERT_TRUE(flags.parse({"--verbosity", "WARN"}));
  EXPECT_EQ(log::level(), log::parse_level("WARN"));
  EXPECT_THROW(flags.parse({"--verbosity", "LOUD"}), UsageError);
  log::set_level(before);
}

}  // namespace
}  // namespace muster
