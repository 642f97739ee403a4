#include "muster/export/exporters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/run_metadata.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header

ServingInput small_input() {
  return raw_serving_input(
      evaluation_input(InputContext(Mode::kEval, 1, 0, 0)).iterate()->next()->features.slice(0, 2));
}

// A trained model with the checkpoints of steps 1 to 6, made once and copied for each test.
class Exporters : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    trained_ = std::make_unique<TempDir>();
    RunConfig config = quiet_config(trained_->path());
    config.checkpoints.save_checkpoints_steps = 1;
    config.checkpoints.keep_checkpoint_max = 10;
    Estimator(small_options(), config).train(training_input, {.max_steps = 6});
  }
  static void TearDownTestSuite() { trained_.reset(); }

  void SetUp() override {
    std::filesystem::copy(trained_->path(), folder_.path(),
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
  }

  Path export_path() const { return folder_ / "export/it"; }

  std::optional<Path> publish(Exporter& exporter, std::int64_t step, double loss,
                              bool is_final = false) const {
    const Estimator estimator(small_options(), quiet_config(folder_.path()));
    return exporter.publish(
        estimator, export_path(), folder_ / fmt::format("model.ckpt-{}", step),
        {{"loss", loss}, {"accuracy", -loss}, {"global_step", static_cast<double>(step)}},
        is_final);
  }

  // The steps of the exports that are there, oldest first, as their notes say.
  std::vector<std::int64_t> exported_steps() const {
    std::vector<std::int64_t> steps;
    for (const Path& dir : graph::exports_in(export_path()))
      steps.push_back(note_of(dir).global_step);
    return steps;
  }

  static ExportNote note_of(const Path& dir) {
    return parse_export_note(testing::read_bytes(dir / "assets.extra/muster.json"), dir.string());
  }

  // As if the process had been killed when `export_saved_model` had done its work.
  void forget(const std::optional<ExportNote>& before) const {
    if (before) {
      write_export_note(folder_.path(), "it", *before);
    } else {
      std::filesystem::remove(folder_ / "muster.json");
    }
  }

  static std::unique_ptr<TempDir> trained_;
  TempDir folder_;
};

std::unique_ptr<TempDir> Exporters::trained_;

TEST_F(Exporters, FinalExportsWhenTrainingIsOverAndKeepsOlderOnes) {
  const auto exporter = final_exporter("it", small_input());
  EXPECT_EQ(publish(*exporter, 1, 1), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(export_path()));
  const auto first = publish(*exporter, 2, 1, /*is_final=*/true);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->parent_path(), export_path());
  const auto second = publish(*exporter, 3, 1, /*is_final=*/true);
  EXPECT_THAT(graph::exports_in(export_path()), ElementsAre(*first, *second));
}

TEST_F(Exporters, ARehearsalSaysWhatCannotBeExportedAndWritesNothing) {
  const auto exporter = final_exporter("it", small_input());
  exporter->rehearse(Estimator(small_options(), quiet_config(folder_.path())));
  EstimatorOptions options = small_options();
  options.model = [] { return std::make_shared<BesselNet>(); };
  const Estimator bessel(options, quiet_config(folder_.path()));
  EXPECT_THAT(error_of([&] { exporter->rehearse(bessel); }), HasSubstr("aten::i0"));
  EXPECT_FALSE(std::filesystem::exists(export_path()));
}

TEST_F(Exporters, AnExportThatFailsLeavesNothingBehind) {
  const auto exporter =
      final_exporter("it", small_input(), {.assets_extra = {{"words.txt", folder_ / "nowhere"}}});
  EXPECT_THAT(error_of([&] { publish(*exporter, 2, 1, /*is_final=*/true); }), HasSubstr("nowhere"));
  EXPECT_TRUE(std::filesystem::is_empty(export_path()));
}

TEST_F(Exporters, AnExportIsOfTheCheckpointThatWasEvaluated) {
  const auto exporter = latest_exporter("it", small_input());
  Estimator estimator(small_options(), quiet_config(folder_.path()));
  for (const std::int64_t step : {2, 5}) {
    const auto dir = publish(*exporter, step, 1);
    const auto features =
        evaluation_input(InputContext(Mode::kEval, 1, 0, 0)).iterate()->next()->features;
    const auto answers =
        executor::ExecutableModel::load(*dir).run("serving_default", {{"x", features.tensor("x")}});
    const auto wanted =
        estimator
            .predict(evaluation_input,
                     {.checkpoint_path = folder_ / fmt::format("model.ckpt-{}", step),
                      .yield_single_examples = false})
            .next();
    EXPECT_TRUE(at::allclose(std::get<at::Tensor>(answers.at("logits")), wanted->tensor("logits"),
                             1e-5, 1e-5));
  }
}

TEST_F(Exporters, AnExportSaysItsStepAndHowItEvaluatedAndTakesFilesAlong) {
  testing::write_bytes(folder_ / "labels.txt", "a\nb\n");
  const auto exporter =
      final_exporter("it", small_input(), {.assets_extra = {{"labels", folder_ / "labels.txt"}}});
  const auto dir = publish(*exporter, 4, 0.25, /*is_final=*/true);
  EXPECT_EQ(testing::read_bytes(*dir / "assets.extra/labels"), "a\nb\n");
  EXPECT_EQ(note_of(*dir).global_step, 4);
  EXPECT_EQ(note_of(*dir).metrics.at("loss"), 0.25);
  const auto noted = read_export_note(folder_.path(), "it");
  EXPECT_EQ(noted->folder, dir->filename());
  EXPECT_EQ(noted->metrics, note_of(*dir).metrics);
}

TEST_F(Exporters, LatestExportsEveryEvaluationAndKeepsTheNewest) {
  const auto exporter = latest_exporter("it", small_input(), {.exports_to_keep = 2});
  for (const std::int64_t step : {1, 2, 3, 4}) EXPECT_TRUE(publish(*exporter, step, 11.0));
  EXPECT_THAT(exported_steps(), ElementsAre(3, 4));
}

TEST_F(Exporters, OnlyWholeExportsAreCountedAndRemoved) {
  for (const char* name : {"7", "notes", "123"}) {
    std::filesystem::create_directories(export_path() / name);
    testing::write_bytes(export_path() / name / "mine.txt", "mine");
  }
  const auto exporter = latest_exporter("it", small_input(), {.exports_to_keep = 1});
  publish(*exporter, 1, 1);
  publish(*exporter, 2, 1);
  EXPECT_THAT(exported_steps(), ElementsAre(2));
  for (const char* name : {"7", "notes", "123"}) {
    EXPECT_TRUE(std::filesystem::exists(export_path() / name / "mine.txt")) << name;
  }
}

TEST_F(Exporters, ACheckpointIsExportedOnceThoughItIsPublishedAgainAsFinal) {
  for (const auto& exporter :
       {latest_exporter("it", small_input()), best_exporter("it", small_input())}) {
    const auto first = publish(*exporter, 3, 1);
    EXPECT_EQ(publish(*exporter, 3, 1, /*is_final=*/true), first);
    EXPECT_THAT(exported_steps(), ElementsAre(3));
    std::filesystem::remove_all(export_path());
    std::filesystem::remove(folder_ / "muster.json");
  }
}

TEST_F(Exporters, BestExportsTheFirstAndThenOnlyBetterOnes) {
  const auto exporter = best_exporter("it", small_input());
  EXPECT_TRUE(publish(*exporter, 1, 3));
  EXPECT_FALSE(publish(*exporter, 2, 4));
  EXPECT_FALSE(publish(*exporter, 3, 3));
  EXPECT_TRUE(publish(*exporter, 4, 2));
  EXPECT_FALSE(publish(*exporter, 5, std::nan("")));
  EXPECT_FALSE(publish(*exporter, 6, 2.5, /*is_final=*/true));
  EXPECT_THAT(exported_steps(), ElementsAre(1, 4));
  EXPECT_EQ(best_exporter(small_input())->name(), "best_exporter");
}

TEST_F(Exporters, BestKeepsTheBestAndNotTheNewest) {
  // Under another rule step 2 was the best: now it is the worst.
  publish(*best_exporter("it", small_input(), {.compare_fn = smaller_is_better("accuracy")}), 1, 5);
  publish(*best_exporter("it", small_input(), {.compare_fn = smaller_is_better("accuracy")}), 2, 9);
  EXPECT_THAT(exported_steps(), ElementsAre(1, 2));
  const auto exporter = best_exporter("it", small_input(), {.exports_to_keep = 2});
  EXPECT_FALSE(publish(*exporter, 3, 8)) << "step 1 is better, though the folder's note is of 2";
  EXPECT_TRUE(publish(*exporter, 4, 4));
  EXPECT_THAT(exported_steps(), ElementsAre(1, 4));
  EXPECT_TRUE(publish(*exporter, 5, 1));
  EXPECT_THAT(exported_steps(), ElementsAre(4, 5));
}

TEST_F(Exporters, AfterARestartBestDoesNotExportAWorseModel) {
  publish(*best_exporter("it", small_input()), 2, 1);
  const auto restarted = best_exporter("it", small_input());
  EXPECT_FALSE(publish(*restarted, 3, 2));
  EXPECT_THAT(exported_steps(), ElementsAre(2));
  // Also when the export itself was moved elsewhere.
  std::filesystem::remove_all(export_path());
  EXPECT_FALSE(publish(*restarted, 4, 2));
  EXPECT_TRUE(publish(*restarted, 5, 0.5));
}

TEST_F(Exporters, AnExportThatARunDidNotComeToNoteIsNeitherLostNorDoubled) {
  for (const auto& make : {+[](ServingInput in) { return final_exporter("it", std::move(in)); },
                           +[](ServingInput in) { return latest_exporter("it", std::move(in)); },
                           +[](ServingInput in) { return best_exporter("it", std::move(in)); }}) {
    publish(*make(small_input()), 1, 4, /*is_final=*/true);
    const auto before = read_export_note(folder_.path(), "it");
    const auto written = publish(*make(small_input()), 3, 2, /*is_final=*/true);
    forget(before);
    // The next run evaluates the same checkpoint again.
    EXPECT_EQ(publish(*make(small_input()), 3, 2, /*is_final=*/true), written);
    EXPECT_THAT(exported_steps(), ElementsAre(1, 3));
    EXPECT_EQ(read_export_note(folder_.path(), "it")->folder, written->filename());
    std::filesystem::remove_all(export_path());
    std::filesystem::remove(folder_ / "muster.json");
  }
}

TEST_F(Exporters, BestCountsAnExportThatWasNotNotedThoughAnotherStepIsEvaluatedNext) {
  publish(*best_exporter("it", small_input()), 1, 4);
  const auto before = read_export_note(folder_.path(), "it");
  publish(*best_exporter("it", small_input()), 3, 2);
  forget(before);
  EXPECT_FALSE(publish(*best_exporter("it", small_input()), 4, 3));
  forget(std::nullopt);
  EXPECT_FALSE(publish(*best_exporter("it", small_input()), 5, 3));
}

TEST_F(Exporters, AnotherRunExportsTheSameCheckpointAgainWhenAsked) {
  publish(*final_exporter("it", small_input()), 3, 1, /*is_final=*/true);
  publish(*final_exporter("it", small_input()), 3, 1, /*is_final=*/true);
  EXPECT_THAT(exported_steps(), ElementsAre(3, 3));
}

TEST_F(Exporters, WhatACrashLeftUnfinishedIsRemoved) {
  std::filesystem::create_directories(export_path() / "temp-1700000000-1/variables");
  publish(*latest_exporter("it", small_input()), 1, 1);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(export_path())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, SizeIs(1));
}

TEST_F(Exporters, AFailureLeavesNoExportAndIsTriedAgain) {
  const auto exporter =
      final_exporter("it", small_input(), {.assets_extra = {{"labels", folder_ / "labels.txt"}}});
  EXPECT_THAT(testing::message_of([&] { publish(*exporter, 2, 1, /*is_final=*/true); }),
              HasSubstr((folder_ / "labels.txt").string()));
  EXPECT_THAT(exported_steps(), IsEmpty());
  testing::write_bytes(folder_ / "labels.txt", "a");
  EXPECT_TRUE(publish(*exporter, 2, 1, /*is_final=*/true));
}

TEST_F(Exporters, AMetricThatIsMissingIsNamedWithThoseThereAre) {
  const auto exporter = best_exporter("it", small_input(), {.compare_fn = larger_is_better("auc")});
  EXPECT_THAT(testing::message_of([&] { publish(*exporter, 1, 1); }),
              AllOf(HasSubstr("'auc'"), HasSubstr("accuracy, global_step, loss")));
}

TEST_F(Exporters, ABestThatLacksTheMetricOfNowIsNoRival) {
  publish(*best_exporter("it", small_input()), 1, 1);
  ExportNote note = *read_export_note(folder_.path(), "it");
  note.metrics.erase("accuracy");
  std::filesystem::remove_all(export_path());
  write_export_note(folder_.path(), "it", note);
  EXPECT_TRUE(publish(
      *best_exporter("it", small_input(), {.compare_fn = larger_is_better("accuracy")}), 2, 7));
}

TEST(ExporterOptions, ThoseThatCannotWorkAreRefusedAtOnce) {
  using testing::message_of;
  const ServingInput in = small_input();
  EXPECT_THAT(message_of([&] { latest_exporter("it", in, {.exports_to_keep = 0}); }),
              AllOf(HasSubstr("it"), HasSubstr("exports_to_keep must be positive: 0")));
  EXPECT_THAT(message_of([&] { best_exporter("it", in, {.exports_to_keep = -1}); }),
              HasSubstr("exports_to_keep must be positive: -1"));
  for (const char* name : {"", ".", "..", "a/b"}) {
    EXPECT_THAT(message_of([&] { final_exporter(name, in); }), HasSubstr("is no name")) << name;
  }
  EXPECT_THAT(message_of([&] {
                final_exporter("it", in, {.assets_extra = {{"muster.json", "x"}}});
              }),
              HasSubstr("is taken"));
}

}  // namespace
}  // namespace muster
