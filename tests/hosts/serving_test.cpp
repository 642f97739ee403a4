// A server of models behind a slow link.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "muster/testing/eventually.h"
#include "muster/testing/hosts/hosts.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Hosts;
using testing::Outcome;
using testing::Words;

class ServingOverHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto refusal = testing::NameSpace::refusal()) GTEST_SKIP() << *refusal;
  }
};

TEST_F(ServingOverHosts, AnswersAllBehindASlowAndLossyLinkAndAgainOnceItIsBack) {
  Hosts hosts(2, {.delay = milliseconds(20),
                  .jitter = milliseconds(5),
                  .loss = 0.01,
                  .bits_per_second = 10'000'000});
  const auto server = hosts.start(0, MUSTER_PROGRAM,
                                  {"serve", EXAMPLES_DIR "/half_plus_two", "--address", "0.0.0.0",
                                   "--port", "8500", "--rest-api-port", "8501"});
  ASSERT_TRUE(testing::eventually(
      [&] { return server->ended() || server->err().find("REST API at:") != std::string::npos; }));
  const auto load = [&](const char* protocol, const char* port) {
    return hosts.run(
        1, MUSTER_PROGRAM,
        {"load", "half_plus_two", "--server", fmt::format("{}:{}", Hosts::name(0), port),
         "--protocol", protocol, "--concurrency", "16", "--requests", "160", "--seconds", "60",
         "--warm-up-seconds", "0", "--json"});
  };
  for (const auto& [protocol, port] : {std::pair{"rest", "8501"}, std::pair{"grpc", "8500"}}) {
    const Outcome outcome = load(protocol, port);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(ContainsRegex("\"requests\": *160[,}]"),
                                   ContainsRegex("\"failed\": *0[,}]")));
  }
  hosts.set_connected(0, false);
  const Outcome lost = hosts.run(
      1, "/usr/bin/curl",
      {"-sS", "--noproxy", "*", "--max-time", "0.3", "http://host-0:8501/v1/models/half_plus_two"});
  EXPECT_NE(lost.status, 0);
  hosts.set_connected(0, true);
  const Outcome found = hosts.run(
      1, "/usr/bin/curl",
      {"-sS", "--noproxy", "*", "--max-time", "30", "http://host-0:8501/v1/models/half_plus_two"});
  EXPECT_THAT(found.out, HasSubstr("AVAILABLE"));
}

}  // namespace
}  // namespace muster
