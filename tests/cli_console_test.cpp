// `muster console` as a user starts it, asked by curl.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>

#include "muster/data/summary/event_writer.h"
#include "muster/testing/eventually.h"
#include "muster/testing/fake_s3.h"
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
  Console(const TempDir& folder, const Words& flags, const Words& environment = {})
      : program_(MUSTER_PROGRAM, words_of(folder, flags), {.environment = environment}) {
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

class ConsoleOfAStore : public ConsoleProgram {
 protected:
  void put(const std::string& name) {
    const std::string path = folder_ / name;
    for (const auto& file : std::filesystem::recursive_directory_iterator(path)) {
      if (!file.is_regular_file()) continue;
      store_.set_bytes("bucket/logs/" + file.path().lexically_relative(folder_.path()).string(),
                       testing::read_bytes(file.path()));
    }
  }
  Words environment() const {
    return {"AWS_ENDPOINT_URL=" + store_.url(), "AWS_ACCESS_KEY_ID=id",
            "AWS_SECRET_ACCESS_KEY=secret", "XDG_CACHE_HOME=" + (folder_ / "cache").string()};
  }

  testing::FakeS3 store_;
};

TEST_F(ConsoleOfAStore, ShowsRunsAsTheyGrowThere) {
  if (!MUSTER_HAS_STORES) GTEST_SKIP() << "built without libcurl or pugixml";
  write_run("small");
  testing::write_bytes(folder_ / "small/muster.json", R"({"runs": [{"seed": 3}], "version": 1})");
  testing::write_bytes(folder_ / "small/model.ckpt-1.index", "large");
  put("small");
  const Words flags{"--logdir", "s3://bucket/logs", "--store-seconds", "0.1", "--allow-changes"};
  const Console console(folder_, flags, environment());
  EXPECT_TRUE(testing::eventually(
      [&] { return console.curl("/api/run?id=small").find("\"seed\":3") != std::string::npos; }));
  const std::string run = console.curl("/api/run?id=small");
  EXPECT_THAT(run, HasSubstr("s3://bucket/logs/small"));
  EXPECT_THAT(console.curl("/api/scalars?run=small&tag=loss"), HasSubstr("\"values\":[0.5]"));
  // A file that grows, and a run that comes.
  {
    EventWriter writer(folder_ / "other");
    writer.add_scalar("loss", 0.25, 1);
    writer.flush();
    put("other");
    EXPECT_TRUE(testing::eventually([&] {
      return console.curl("/api/scalars?run=other&tag=loss").find("[0.25]") != std::string::npos;
    }));
    writer.add_scalar("loss", 0.125, 2);
    writer.close();
    put("other");
  }
  EXPECT_TRUE(testing::eventually([&] {
    return console.curl("/api/scalars?run=other&tag=loss").find("[0.25,0.125]") !=
           std::string::npos;
  }));
  // Neither checkpoints nor what the store has no more are kept here.
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder_ / "cache")) {
    EXPECT_THAT(file.path().filename().string(), ::testing::Not(HasSubstr("ckpt")));
  }
  const std::string session = console.curl("/api/session");
  std::smatch secret;
  ASSERT_TRUE(std::regex_search(session, secret, std::regex("\"pageSecret\":\"([^\"]+)\"")));
  EXPECT_THAT(console.curl("/api/run/notes?id=small", {"-d", R"({"name": "best"})", "-H",
                                                       "X-Muster-Page: " + secret[1].str()}),
              EndsWith("200"));
  EXPECT_THAT(store_.bytes_of("bucket/logs/small/run_notes.json").value_or(""), HasSubstr("best"));
  EXPECT_THAT(
      testing::run_program(MUSTER_PROGRAM, words_of(folder_, {"--logdir", "s3://bucket/none"}),
                           environment())
          .err,
      HasSubstr("there is no folder s3://bucket/none"));
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
