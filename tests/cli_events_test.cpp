// `muster events` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/graph/graph_def.h"
#include "muster/summary/event_writer.h"
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

}  // namespace
}  // namespace muster
