// From training to an answer with programs alone: census trains and exports, muster predict asks,
// muster export savedmodel makes the same model of what training left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/graph/export_folder.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using ::testing::StartsWith;
using testing::TempDir;
using testing::write_bytes;

// A person in the three ways that the example can be fed.
constexpr const char* kRow =
    "25,Private,226802,11th,7,Never-married,Machine-op-inspct,Own-child,Black,Male,0,0,40,"
    "United-States,<=50K\n";
constexpr const char* kInstance =
    R"({"age": 25, "workclass": "Private", "education": "11th", "education_num": 7, )"
    R"("marital_status": "Never-married", "occupation": "Machine-op-inspct", )"
    R"("relationship": "Own-child", "race": "Black", "gender": "Male", "capital_gain": 0, )"
    R"("capital_loss": 0, "hours_per_week": 40, "native_country": "United-States"})";
constexpr const char* kExpressions =
    "age=[25];workclass=['Private'];education=['11th'];education_num=[7];marital_status="
    "['Never-married'];occupation=['Machine-op-inspct'];relationship=['Own-child'];race=['Black'];"
    "gender=['Male'];capital_gain=[0];capital_loss=[0];hours_per_week=[40];native_country="
    "['United-States']";
constexpr const char* kExample =
    "example_proto=[{'age': [25.0], 'workclass': ['Private'], 'education': ['11th'], "
    "'education_num': [7.0], 'marital_status': ['Never-married'], 'occupation': "
    "['Machine-op-inspct'], 'relationship': ['Own-child'], 'race': ['Black'], 'gender': ['Male'], "
    "'capital_gain': [0.0], 'capital_loss': [0.0], 'hours_per_week': [40.0], 'native_country': "
    "['United-States']}]";

class CensusPredict : public ::testing::Test {
 protected:
  void SetUp() override {
    tool({"records", "synth", "census", "--output", folder_.path(), "--train", "400", "--test",
          "40"});
    write_bytes(folder_ / "person.json", std::string(kInstance) + "\n");
    write_bytes(folder_ / "person.csv", kRow);
  }

  static std::string tool(const std::vector<std::string>& arguments) {
    const Outcome outcome = testing::run_program(MUSTER_PROGRAM, arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }

  // The same weights each time: only the way in differs.
  Path train(const std::string& format) {
    const Path job_dir = folder_ / format;
    const Outcome outcome = testing::run_program(
        CENSUS_PROGRAM,
        {"--train-files", folder_ / "adult.data.csv", "--eval-files", folder_ / "adult.test.csv",
         "--job-dir", job_dir, "--train-steps", "10", "--seed", "7", "--export-format", format});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return job_dir;
  }

  Path export_of(const std::string& format) {
    return graph::latest_export(folder_ / (format + "/export/census"));
  }

  std::string predict(const Path& model, const char* flag, const char* file,
                      const std::string& signature) {
    return tool(
        {"predict", "--model-dir", model, flag, folder_ / file, "--signature-name", signature});
  }

  TempDir folder_;
};

TEST_F(CensusPredict, JsonRowsAndExamplesGetTheSameAnswer) {
  const std::string json =
      predict(train("JSON") / "export/census", "--json-instances", "person.json", "predict");
  EXPECT_THAT(json, StartsWith("ALL_CLASS_IDS  ALL_CLASSES  CLASS_IDS  CLASSES  LOGISTIC"));
  const Path csv = train("CSV") / "export/census";
  EXPECT_EQ(predict(csv, "--text-instances", "person.csv", "predict"), json);
  EXPECT_THAT(predict(csv, "--text-instances", "person.csv", "classification"),
              StartsWith("CLASSES     SCORES\n['0', '1']  [0."));
  const auto run = [](const Path& model, const char* flag, const char* inputs) {
    return tool({"model", "run", "--dir", model, "--signature_def", "predict", flag, inputs});
  };
  const std::string arrays = run(export_of("JSON"), "--input_exprs", kExpressions);
  EXPECT_THAT(arrays, HasSubstr("Result for output key classes:\n[[b'"));
  train("EXAMPLE");
  EXPECT_EQ(run(export_of("EXAMPLE"), "--input_examples", kExample), arrays);
}

TEST_F(CensusPredict, TheGraphAndACheckpointOfTheJobFolderAnswerAsTheExportDoes) {
  const Path job_dir = train("JSON");
  tool({"export", "savedmodel", "--model-dir", job_dir});
  EXPECT_EQ(
      predict(job_dir / "export/savedmodel", "--json-instances", "person.json", "serving_default"),
      predict(job_dir / "export/census", "--json-instances", "person.json", "serving_default"));
}

}  // namespace
}  // namespace muster
