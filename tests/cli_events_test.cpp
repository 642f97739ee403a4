// `muster events` and `muster runs` as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/data/summary/event_writer.h"
#include "muster/saved_model/graph/graph_def.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::TempDir;

Outcome show(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"events", "show"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return testing::run_program(MUSTER_PROGRAM, words);
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    lines.push_back(nlohmann::json::parse(text.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

// Two files, as after a restart: three losses, a histogram, a note.
Path write_run(const TempDir& folder) {
  EventWriter first(folder.path());
  first.add(Event{
      .wall_time = 1'700'000'000.25, .step = 100, .what = Summary{{.tag = "loss", .data = 0.5F}}});
  first.add_scalar("loss", 0.25, 200);
  first.add_histogram("weights", std::vector<float>{-1, 0, 3}, 200);
  first.close();
  EventWriter second(folder.path());
  second.add_scalar("loss", 0.125, 300);
  second.add_text("note", "first line\nsecond", 300);
  second.close();
  return second.path();
}

TEST(EventsShow, ListsTagsWithCountsOverAllFiles) {
  const TempDir folder;
  write_run(folder);
  const Outcome outcome = show({folder.path().string()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("loss +scalar +3 +100..300 +0.125\n"),
                                 ContainsRegex("weights +histogram +1 +200..200 +3 values"),
                                 ContainsRegex("note +text +1 +300..300 +first line second\n")));
  const auto lines = json_lines(show({folder.path().string(), "--json"}).out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["tag"], "loss");
  EXPECT_EQ(lines[0]["count"], 3);
}

TEST(EventsShow, ListsGraphs) {
  const TempDir folder;
  graph::GraphDef graph;
  graph.nodes = {{.name = "a", .op = "NoOp"}, {.name = "b", .op = "NoOp"}};
  EventWriter writer(folder.path());
  writer.add_graph(graph::encode_graph(graph));
  writer.add_graph(graph::encode_graph(graph), 40);
  writer.close();
  const Outcome outcome = show({folder.path().string()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("graph_def +graph +2 +0..40 +2 nodes, [0-9]+ bytes\n"));

  EventWriter damaged(folder / "damaged");
  damaged.add_graph("no graph");
  damaged.close();
  EXPECT_THAT(show({folder / "damaged"}).out, HasSubstr("8 bytes, which cannot be read"));
}

TEST(EventsShow, PrintsTheValuesOfATag) {
  const TempDir folder;
  const Path last = write_run(folder);
  const Outcome outcome = show({folder.path().string(), "--tag", "loss"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("loss  100   2023-11-14T22:13:20.250Z  0.5\n"),
                                 ContainsRegex("loss  300   [^ ]+  0.125\n")));
  const auto one_file = json_lines(show({last.string(), "--tag", "loss", "--json"}).out);
  ASSERT_EQ(one_file.size(), 1U);
  EXPECT_EQ(one_file[0]["step"], 300);
  EXPECT_EQ(one_file[0]["value"], 0.125);
}

TEST(EventsShow, LimitKeepsTheLatestValues) {
  const TempDir folder;
  write_run(folder);
  const auto lines =
      json_lines(show({folder.path().string(), "--tag", "loss", "--limit", "2", "--json"}).out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["step"], 200);
  EXPECT_EQ(lines[1]["step"], 300);
}

TEST(EventsShow, SummarisesHistogramsAndGivesThemInFullAsJson) {
  const TempDir folder;
  write_run(folder);
  EXPECT_THAT(show({folder.path().string(), "--tag", "weights"}).out,
              HasSubstr("3 values, -1 to 3, mean 0.666667, deviation 1.69967"));
  const auto lines = json_lines(show({folder.path().string(), "--tag", "weights", "--json"}).out);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["value"]["sum"], 2);
  EXPECT_EQ(lines[0]["value"]["limits"].size(), lines[0]["value"]["counts"].size());
}

TEST(EventsShow, AnUnknownTagOrAMissingFileFailsAndIsNamed) {
  const TempDir folder;
  write_run(folder);
  const Outcome tag = show({folder.path().string(), "--tag", "los"});
  EXPECT_EQ(tag.status, 1);
  EXPECT_THAT(tag.err, HasSubstr("\"los\""));
  const Outcome file = show({"/nowhere/events"});
  EXPECT_EQ(file.status, 1);
  EXPECT_THAT(file.err, HasSubstr("/nowhere/events"));
  const TempDir empty;
  EXPECT_THAT(show({empty.path().string()}).err, HasSubstr("no event file in"));
}

TEST(EventsShow, DamageIsToldBehindWhatIsGood) {
  const TempDir folder;
  const Path last = write_run(folder);
  testing::flip_byte(last, testing::read_bytes(last).size() - 1);
  const Outcome outcome = show({folder.path().string()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, ContainsRegex("loss +scalar +3"));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(last.string()), HasSubstr("checksum")));
}

TEST(EventsShow, ALiveFileIsShownUpToItsLastWholeRecord) {
  const TempDir folder;
  const Path last = write_run(folder);
  const std::string bytes = testing::read_bytes(last);
  testing::write_bytes(last, bytes.substr(0, bytes.size() - 3));
  const Outcome outcome = show({folder.path().string()});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, ContainsRegex("loss +scalar +3"));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("note")));
}

// Folders as training leaves them: muster.json of two, one of them with two runs.
class RunsCommand : public ::testing::Test {
 protected:
  RunsCommand() {
    write("a", R"({"version": 1, "runs": [
      {"began_ns": 1794735581000000000, "ended": false, "program": "/bin/census",
       "arguments": ["--train-steps", "10", "--seed=7"], "seed": 7},
      {"began_ns": 1794735681000000000, "ended": true, "ended_ns": 1794735683500000000,
       "global_step": 10, "program": "/bin/census", "arguments": ["--train-steps", "10", "--seed=7"],
       "seed": 7, "git": {"repository": "/src", "commit": "0123456789abcdef", "branch": "main"},
       "versions": {"libtorch": "1.13.0"}, "metrics": {"loss": 0.5, "auc": 0.8, "worst": "nan"},
       "files": [{"path": "/data/a.csv", "size_bytes": 12, "modified_ns": 1794735581000000000}]}
      ]})");
    write("more/b", R"({"version": 1, "runs": [
      {"began_ns": 1794735781000000000, "ended": true, "ended_ns": 1794735783500000000,
       "global_step": 20, "program": "/bin/census", "arguments": ["--train-steps", "20", "--verbose"],
       "seed": 8, "versions": {"libtorch": "2.11.0"}, "metrics": {"loss": 0.25, "auc": 0.75}}]})");
    write("empty", R"({"version": 1})");
  }

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder_ / name);
    testing::write_bytes(folder_ / name / "muster.json", text);
  }

  Outcome runs(std::vector<std::string> words) const {
    words.insert(words.begin(), "runs");
    return testing::run_program(MUSTER_PROGRAM, words, {"TZ=UTC"});
  }

  std::vector<std::string> names_of(const std::vector<std::string>& flags) const {
    std::vector<std::string> words{"list", folder_.path(), "--json"};
    words.insert(words.end(), flags.begin(), flags.end());
    std::vector<std::string> names;
    for (const auto& run : nlohmann::json::parse(runs(words).out)) {
      names.push_back(std::filesystem::path(run.at("run").get<std::string>()).filename());
    }
    return names;
  }

  TempDir folder_;
};

TEST_F(RunsCommand, ListsRunsOfAFolderAndThoseInside) {
  const Outcome outcome = runs({"list", folder_.path()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("^RUN +STARTED +STATE +STEP +COMMIT +LOSS +AUC\n"));
  EXPECT_THAT(outcome.out, ContainsRegex("/a#1 +2026-11-15T[0-9:]+ +unfinished +- +- +- +-\n"));
  EXPECT_THAT(outcome.out, ContainsRegex("/a#2 +[^ ]+ +ended +10 +0123456789 +0.5 +0.8\n"));
  EXPECT_THAT(outcome.out, ContainsRegex("/more/b +[^ ]+ +ended +20 +- +0.25 +0.75\n"));
}

TEST_F(RunsCommand, ShowsTheMetricsThatAreNamed) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--metric", "auc", "--metric", "loss"},
        {"--metric", "auc,loss"}}) {
    std::vector<std::string> words{"list"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back(folder_.path());  // No further metric.
    const Outcome outcome = runs(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, ContainsRegex("^RUN +STARTED +STATE +STEP +COMMIT +AUC +LOSS\n"));
  }
}

TEST_F(RunsCommand, SortsByAnyMetric) {
  using ::testing::ElementsAre;
  EXPECT_THAT(names_of({}), ElementsAre("a#1", "a#2", "b"));
  EXPECT_THAT(names_of({"--sort", "loss"}), ElementsAre("b", "a#2", "a#1"));
  EXPECT_THAT(names_of({"--sort", "auc", "--reverse"}), ElementsAre("a#2", "b", "a#1"));
  const Outcome unknown = runs({"list", folder_.path(), "--sort", "f1"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_EQ(unknown.err, "muster: --sort: no run has a metric f1; there are: auc, loss, worst\n");
}

TEST_F(RunsCommand, ShowsARun) {
  const std::string last = runs({"show", folder_ / "a"}).out;
  EXPECT_THAT(last, ContainsRegex("argument --seed +7\n"));
  EXPECT_THAT(last, ContainsRegex("file /data/a.csv +12 bytes, 2026-11-15T"));
  EXPECT_THAT(last, ContainsRegex("seconds +2.5\n"));
  EXPECT_THAT(last, ContainsRegex("metric worst +nan\n"));
  EXPECT_THAT(runs({"show", (folder_ / "a").string() + "#1"}).out,
              ContainsRegex("state +unfinished\n"));
  EXPECT_THAT(runs({"show", (folder_ / "a").string() + "#3"}).err, HasSubstr("no #3"));
  EXPECT_THAT(runs({"show", folder_ / "empty"}).err, HasSubstr("has no record of a run"));
  EXPECT_THAT(runs({"list", folder_ / "absent"}).err, HasSubstr("there is no folder"));
}

TEST_F(RunsCommand, ComparesTwoRunsInWhatDiffers) {
  const Outcome outcome = runs({"compare", folder_ / "a", folder_ / "more/b"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("\nargument --train-steps +10 +20"));
  EXPECT_THAT(outcome.out, ContainsRegex("\nargument --seed +7 +-"));
  EXPECT_THAT(outcome.out, ContainsRegex("\nargument --verbose +- +given"));
  EXPECT_THAT(outcome.out, ContainsRegex("\nmetric loss +0.5 +0.25 +-0.25\n"));
  EXPECT_THAT(outcome.out, ContainsRegex("\nversion libtorch +1.13.0 +2.11.0"));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("program")));
  EXPECT_THAT(runs({"compare", folder_ / "a", folder_ / "a"}).out, HasSubstr("do not differ"));
}

}  // namespace
}  // namespace muster
