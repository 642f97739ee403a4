// `muster console` as a user starts it, asked by curl.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "muster/data/summary/event_writer.h"
#include "muster/testing/eventually.h"
#include "muster/testing/process.h"
#include "muster/testing/raw_tcp.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::operator+;
using testing::Outcome;
using testing::TempDir;
using testing::Words;

Words words_of(const TempDir& folder, const Words& flags) {
  return Words{"console", "--port", "0", "--jobs-dir", folder / "jobs"} + flags;
}

/// A console that runs beside the test.
class Console {
 public:
  Console(const TempDir& folder, const Words& flags)
      : program_(MUSTER_PROGRAM, words_of(folder, flags)) {
    const std::regex line("the console is at http://[^:]+:([0-9]+)/");
    EXPECT_TRUE(testing::eventually([&] {
      const std::string text = program_.err();
      std::smatch match;
      if (std::regex_search(text, match, line)) port_ = match[1].str();
      return !port_.empty() || program_.ended();
    }));
    EXPECT_NE(port_, "") << program_.err();
  }

  const std::string& port() const { return port_; }

  // The body, and the status on a line of its own.
  std::string curl(const std::string& path, const Words& more = {}) const {
    return testing::run_program("/usr/bin/curl",
                                Words{"-sS", "--noproxy", "*", "--max-time", "60", "-w",
                                      "\n%{http_code}", "http://127.0.0.1:" + port_ + path} +
                                    more)
        .out;
  }

 private:
  testing::RunningProgram program_;
  std::string port_;
};

class ConsoleProgram : public ::testing::Test {
 protected:
  void write_run(const char* name) {
    EventWriter writer(folder_ / name);
    writer.add_scalar("loss", 0.5, 1);
    writer.close();
  }
  std::string refusal(const Words& flags) {
    const Outcome outcome = testing::run_program(MUSTER_PROGRAM, words_of(folder_, flags));
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    return outcome.err;
  }

  TempDir folder_;
};

TEST_F(ConsoleProgram, TakesItsFoldersServersAndNamesAgainAndAgain) {
  write_run("a/first");
  write_run("b/second");
  // Nothing listens there, and the page says so.
  const Console console(folder_, {"--logdir", folder_ / "a", "--server", "127.0.0.1:1", "--logdir",
                                  folder_ / "b", "--server", "127.0.0.1:2", "--host-name",
                                  "one.example", "--host-name", "two.example"});
  const std::string runs = console.curl("/api/runs");
  EXPECT_THAT(runs, HasSubstr("first"));
  EXPECT_THAT(runs, HasSubstr("second"));
  const std::string models = console.curl("/api/models");
  EXPECT_THAT(models, HasSubstr("127.0.0.1:1\""));
  EXPECT_THAT(models, HasSubstr("127.0.0.1:2\""));
  for (const char* host : {"one.example", "two.example:6800"}) {
    EXPECT_THAT(console.curl("/", {"-H", fmt::format("Host: {}", host)}), EndsWith("200")) << host;
  }
  EXPECT_THAT(refusal({"--logdir", folder_ / "a", folder_ / "b"}), HasSubstr("/b"));
}

TEST_F(ConsoleProgram, AnswersToNoOtherHost) {
  const Console console(folder_, {"--logdir", folder_.path().string()});
  EXPECT_THAT(console.curl("/"), EndsWith("200"));
  EXPECT_THAT(console.curl("/", {"-H", "Host: evil.example"}), EndsWith("403"));
  EXPECT_THAT(console.curl("/", {"-H", "Host: localhost:6811@evil"}), EndsWith("400"));
  testing::RawTcp two_hosts("127.0.0.1:" + console.port());
  two_hosts.send("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n");
  EXPECT_THAT(two_hosts.read_to_end(), ::testing::StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(console.curl("/", {"-H", "Host:"}), EndsWith("400"));
}

TEST_F(ConsoleProgram, OpensToOtherHostsForTokensThatCannotBeGuessed) {
  const std::string tokens = folder_ / "tokens";
  const Words open{"--address", "0.0.0.0", "--logdir", folder_.path().string()};
  EXPECT_THAT(refusal(open), HasSubstr("--tokens-file must say who may look"));
  testing::write_bytes(tokens, "long-enough-to-be-a-secret predict\nx admin\n");
  EXPECT_THAT(refusal(open + Words{"--tokens-file", tokens}),
              HasSubstr("has a token that can be guessed"));
  const Console here(folder_, {"--logdir", folder_.path().string(), "--tokens-file", tokens});
  EXPECT_THAT(here.curl("/api/runs", {"-H", "Authorization: Bearer x"}), EndsWith("200"));
  testing::write_bytes(tokens, "long-enough-to-be-a-secret predict\n");
  const Console there(folder_, open + Words{"--tokens-file", tokens});
  EXPECT_THAT(there.curl("/api/runs"), EndsWith("401"));
  EXPECT_THAT(there.curl("/api/runs", {"-H", "Authorization: Bearer long-enough-to-be-a-secret"}),
              EndsWith("200"));
}

TEST(Report, NeedsTheNameOfAFile) {
  const TempDir folder;
  const Outcome outcome =
      testing::run_program(MUSTER_PROGRAM, {"report", folder.path().string(), "--output", ""});
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("--output: give the name of an HTML file"));
}

}  // namespace
}  // namespace muster
