#include "muster/orchestration/jobs/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster::jobs {
namespace {

using ::muster::testing::message_of;
using ::testing::HasSubstr;

TEST(JobName, IsALetterThenLettersDigitsAndUnderscores) {
  for (const char* name : {"a", "census_1", "X9"}) EXPECT_NO_THROW(check_job_name(name)) << name;
  for (const std::string& name :
       {std::string(), std::string("1a"), std::string("_a"), std::string("a-b"),
        std::string("../x"), std::string("a b"), std::string("\xc3\xa4"), std::string(129, 'a')}) {
    EXPECT_THROW(check_job_name(name), InvalidArgument) << name;
  }
}

TEST(JobState, HasCloudMlEnginesNamesAndEnds) {
  int final_states = 0;
  for (const char* name :
       {"QUEUED", "PREPARING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED"}) {
    EXPECT_EQ(name_of(parse_state(name)), name);
    final_states += is_final(parse_state(name)) ? 1 : 0;
  }
  EXPECT_EQ(final_states, 3);
  EXPECT_THROW(parse_state("DONE"), InvalidArgument);
}

TEST(JobTime, ComesBackFromItsText) {
  const Time time = parse_time("2026-03-01T10:04:11.532001Z");
  EXPECT_EQ(to_text(time), "2026-03-01T10:04:11.532001Z");
  for (const char* text : {"", "2026-03-01", "2026-03-01T10:04:11.532001", "x"}) {
    EXPECT_THROW(parse_time(text), InvalidArgument) << text;
  }
}

TEST(JobLabels, AreRefusedByName) {
  EXPECT_NO_THROW(check_labels({{"team", "vision-1"}, {"a_b", ""}}));
  EXPECT_THAT(message_of([] { check_labels({{"Team", "x"}}); }), HasSubstr("\"Team\""));
  EXPECT_THAT(message_of([] { check_labels({{"1a", "x"}}); }), HasSubstr("\"1a\""));
  EXPECT_THAT(message_of([] { check_labels({{"team", "A"}}); }), HasSubstr("\"team\""));
  EXPECT_THROW(check_labels({{"team", std::string(64, 'x')}}), InvalidArgument);
}

TEST(ScaleTierName, IsReadAsPeopleWriteIt) {
  for (const char* word : {"standard-1", "STANDARD_1", "SCALE_TIER_STANDARD_1", "Standard_1"}) {
    EXPECT_EQ(normalized_tier(word), "STANDARD_1") << word;
  }
}

}  // namespace
}  // namespace muster::jobs
