#include "muster/serving/codec/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"

namespace muster::serving {
namespace {

using testing::TempDir;

class ModelFolderTest : public ::testing::Test {
 protected:
  Path model_at(const std::string& name) {
    std::filesystem::create_directories(folder_ / name);
    testing::write_bytes(folder_ / (name + "/saved_model.pb"), name);
    return folder_ / name;
  }

  TempDir folder_;
  ModelFolder models_{folder_ / "models"};
};

TEST_F(ModelFolderTest, TheFirstVersionBecomesTheDefaultAndLaterOnesDoNot) {
  EXPECT_TRUE(models_.list().empty());
  models_.create_model("census", "people");
  const VersionRecord first = models_.create_version("census", "v1", model_at("a"), "");
  EXPECT_EQ(first.number, 1);
  EXPECT_TRUE(first.is_default);
  EXPECT_EQ(first.state, "READY");
  EXPECT_EQ(testing::read_bytes(folder_ / "models/census/1/saved_model.pb"), "a");
  EXPECT_FALSE(models_.create_version("census", "v2", model_at("b"), "").is_default);
  EXPECT_TRUE(models_.set_default("census", "v2").is_default);
  ASSERT_EQ(models_.list().size(), 1U);
  EXPECT_EQ(models_.list()[0].default_version, "v2");
  EXPECT_EQ(models_.list()[0].versions.size(), 2U);
  EXPECT_EQ(models_.list()[0].description, "people");
}

TEST_F(ModelFolderTest, CopiesATorchScriptFileWithItsSignature) {
  models_.create_model("spiral", "");
  testing::write_bytes(folder_ / "spiral.pt", "code");
  testing::write_bytes(folder_ / "spiral.signature.json", "{}");
  EXPECT_EQ(models_.create_version("spiral", "v1", folder_ / "spiral.pt", "").state, "READY");
  EXPECT_EQ(testing::read_bytes(folder_ / "models/spiral/1/model.pt"), "code");
  EXPECT_EQ(testing::read_bytes(folder_ / "models/spiral/1/model.signature.json"), "{}");
  const Path copied = folder_ / "models/spiral/1";
  EXPECT_EQ(models_.create_version("spiral", "v2", copied, "").state, "READY");
}

TEST_F(ModelFolderTest, OneVersionIsInProductionAndTheOneBeforeIsArchived) {
  models_.create_model("m", "");
  models_.create_version("m", "v1", model_at("a"), "");
  models_.create_version("m", "v2", model_at("b"), "");
  models_.set_stage("m", "v1", kProduction, "first");
  models_.set_traffic_split("m", {{"v1", 9}, {"v2", 1}});
  models_.set_stage("m", "v2", kStaging, "to try");
  EXPECT_TRUE(models_.version("m", "v1").is_default);
  models_.set_stage("m", "v2", kProduction, "better AUC");
  const ModelRecord model = models_.model("m");
  EXPECT_EQ(model.default_version, "v2");
  EXPECT_TRUE(model.traffic_split.empty());
  EXPECT_EQ(model.versions[0].stage, kArchived);
  EXPECT_EQ(model.versions[0].stage_changes.back().reason, "v2 took its place in production");
  ASSERT_EQ(model.versions[1].stage_changes.size(), 2U);
  EXPECT_EQ(model.versions[1].stage_changes[1].reason, "better AUC");
  EXPECT_THROW(models_.set_stage("m", "v2", kArchived, "x"), FailedPrecondition);
  EXPECT_THROW(models_.set_stage("m", "v2", "best", "x"), InvalidArgument);
  EXPECT_THROW(models_.set_stage("m", "v3", kStaging, "x"), NotFound);
}

TEST_F(ModelFolderTest, AVersionKnowsTheRunThatItsExportLiesIn) {
  model_at("run/export/final/7");
  testing::write_bytes(folder_ / "run/muster.json",
                       R"({"runs": [{"seed": 1}, {"seed": 3, "git": {"commit": "f0a6"},
                           "arguments": ["--token", "x"], "metrics": {"auc": 0.9}}]})");
  models_.create_model("m", "");
  models_.create_version("m", "v1", folder_ / "run/export/final", "");
  const std::string lineage = models_.version("m", "v1").lineage;
  EXPECT_EQ(lineage, R"({"commit":"f0a6","metrics":{"auc":0.9},"run":")" +
                         (folder_ / "run").string() + R"(","seed":3})");
  models_.create_version("m", "v2", model_at("a"), "");
  EXPECT_EQ(models_.version("m", "v2").lineage, "");
}

TEST_F(ModelFolderTest, KeepsTheDefaultVersionAndModelsThatHaveVersions) {
  models_.create_model("m", "");
  models_.create_version("m", "v1", model_at("a"), "");
  models_.create_version("m", "v2", model_at("b"), "");
  EXPECT_THROW(models_.delete_version("m", "v1"), FailedPrecondition);
  EXPECT_THROW(models_.delete_model("m"), FailedPrecondition);
  models_.delete_version("m", "v2");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "models/m/2"));
  models_.delete_version("m", "v1");
  models_.delete_model("m");
  EXPECT_TRUE(models_.list().empty());
}

TEST_F(ModelFolderTest, SharesTrafficAmongVersionsUntilADefaultIsChosen) {
  models_.create_model("m", "");
  models_.create_version("m", "v1", model_at("a"), "");
  models_.create_version("m", "v2", model_at("b"), "");
  models_.create_version("m", "v3", model_at("b"), "");
  const TrafficSplit split{{"v1", 90}, {"v2", 10}};
  EXPECT_EQ(models_.set_traffic_split("m", split).traffic_split, split);
  EXPECT_EQ(models_.model("m").traffic_split, split);
  EXPECT_THROW(models_.set_traffic_split("m", {{"v4", 1}}), NotFound);
  EXPECT_THROW(models_.set_traffic_split("m", {{"v1", -1}}), InvalidArgument);
  EXPECT_THROW(models_.set_traffic_split("m", {{"v1", 0}}), InvalidArgument);
  EXPECT_THROW(models_.delete_version("m", "v2"), FailedPrecondition);
  models_.delete_version("m", "v3");
  models_.set_default("m", "v2");
  EXPECT_TRUE(models_.model("m").traffic_split.empty());
}

TEST_F(ModelFolderTest, RefusesWhatIsThereWhatIsNotAndWrongNames) {
  models_.create_model("m", "");
  EXPECT_THROW(models_.create_model("m", ""), AlreadyExists);
  for (const char* name : {"", "1a", "a/b", "..", "a b", "\xC3\xA9"}) {
    EXPECT_THROW(models_.create_model(name, ""), InvalidArgument) << name;
    EXPECT_THROW(models_.create_version("m", name, model_at("a"), ""), InvalidArgument) << name;
  }
  EXPECT_THROW(models_.model("n"), NotFound);
  EXPECT_THROW(models_.create_version("m", "v1", folder_ / "none", ""), NotFound);
  models_.create_version("m", "v1", model_at("a"), "");
  EXPECT_THROW(models_.create_version("m", "v1", model_at("a"), ""), AlreadyExists);
  EXPECT_THROW(models_.version("m", "v2"), NotFound);
  EXPECT_THROW(models_.set_default("m", "v2"), NotFound);
}

TEST_F(ModelFolderTest, CallsVersionsWithoutANameByTheirNumber) {
  model_at("models/plain/7");
  const ModelRecord model = models_.model("plain");
  EXPECT_EQ(model.default_version, "7");
  EXPECT_EQ(models_.create_version("plain", "v8", model_at("a"), "").number, 8);
  testing::write_bytes(folder_ / "models/plain/model.json", "{");
  EXPECT_THROW(models_.model("plain"), DataLoss);
}

}  // namespace
}  // namespace muster::serving
