// The census example's export predicts the same as the trained model, through every receiver.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "muster/data/features/census_columns_internal.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/record_reader.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/op_registry.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/api.h"

namespace muster {
namespace {

using executor::ExecutableModel;
using executor::StringTensor;
using executor::Values;
using ::testing::ElementsAre;
using testing::TempDir;

constexpr std::size_t kPeople = 1000;

std::vector<std::string> first_lines(const Path& file, std::size_t count) {
  std::ifstream text(file);
  std::vector<std::string> lines;
  for (std::string line; lines.size() < count && std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// The people of a file, as the example reads them.
struct People {
  static constexpr std::string_view kNames =
      "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,"
      "gender,capital_gain,capital_loss,hours_per_week,native_country,income_bracket";

  explicit People(std::vector<std::string> rows) : lines(std::move(rows)) {
    std::vector<CsvField> fields;
    std::istringstream names{std::string(kNames)};
    for (std::string name; std::getline(names, name, ',');) {
      const std::string_view key = name;
      const bool number = key == "age" || key == "education_num" || key == "hours_per_week" ||
                          key.starts_with("capital_");
      fields.push_back(number ? CsvField::int32(name, 0) : CsvField::string(name, ""));
    }
    const std::vector<std::string_view> views(lines.begin(), lines.end());
    const auto decoder =
        std::make_shared<const CsvDecoder>(std::move(fields), CsvOptions{.strip_blanks = true});
    features = to_features(decoder->decode(views), decoder);
    features.remove("income_bracket");
    features.remove("fnlwgt");
  }

  std::vector<std::string> lines;
  Features features;
};

Values as_json(const People& people) {
  Values inputs;
  for (const auto& [name, value] : people.features) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      inputs.emplace(name, tensor->to(torch::kFloat));
    } else {
      const auto words = std::get<StringColumn>(value).values();
      inputs.emplace(name, StringTensor({words.begin(), words.end()}));
    }
  }
  return inputs;
}

Values as_examples(const People& people) {
  std::vector<ExampleBuilder> builders(people.lines.size());
  for (const auto& [name, value] : people.features) {
    for (std::size_t i = 0; i < builders.size(); ++i) {
      if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
        const auto number = (*tensor)[static_cast<std::int64_t>(i)].item<int>();
        builders[i].add_float(name, static_cast<float>(number));
      } else {
        builders[i].add_bytes(name, std::get<StringColumn>(value).values()[i]);
      }
    }
  }
  std::vector<std::string> examples;
  for (const auto& builder : builders) examples.push_back(builder.serialize());
  return {{"example_proto", StringTensor(std::move(examples))}};
}

// The records that `muster records write csv` makes of the people; they come in any order.
std::vector<std::string> written_records(const Path& folder, const People& people) {
  std::ofstream text(folder / "people.csv");
  text << People::kNames << '\n';
  for (const auto& line : people.lines) text << line << '\n';
  text.close();
  const auto outcome = testing::run_program(
      MUSTER_PROGRAM, {"records", "write", "csv", "--input", folder / "people.csv", "--header",
                       "--output", folder / "records", "--validation-fraction", "0"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<std::string> records;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "records")) {
    if (entry.path().extension() == ".index") continue;
    RecordReader reader(entry.path());
    while (const auto record = reader.next()) records.emplace_back(*record);
  }
  return records;
}

Path only_folder_in(const Path& base) {
  std::vector<Path> found;
  for (const auto& entry : std::filesystem::directory_iterator(base)) found.push_back(entry.path());
  EXPECT_EQ(found.size(), 1U);
  return found.at(0);
}

std::vector<std::string> names_of(const ExecutableModel& model) {
  std::vector<std::string> names;
  for (const auto& item : model.signatures()) names.push_back(item.first);
  return names;
}

Features predicted(const Path& job_dir, const People& people) {
  const auto columns = internal::census_columns();
  auto estimator = dnn_linear_combined_classifier({.linear_columns = columns.wide,
                                                   .dnn_columns = columns.deep,
                                                   .hidden_units = {100, 70, 48, 34}},
                                                  RunConfig{.model_dir = job_dir});
  auto predictions = estimator.predict(
      [&](const InputContext&) { return from_vector<Batch>({Batch{.features = people.features}}); },
      {.yield_single_examples = false});
  return *predictions.next();
}

// How far two are apart at most, where 1 is the largest of the values wanted. Sums that begin with
// a capital gain of 99,999 are as exact as their largest term, whichever way a processor adds them.
double relative_distance(const at::Tensor& actual, const at::Tensor& wanted) {
  const double largest = std::max(1.0, wanted.abs().max().item<double>());
  return (actual - wanted).abs().max().item<double>() / largest;
}

TEST(CensusExport, AnswersAboutRealPeopleAsTheEstimatorDoes) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto registry = graph::OpRegistry::read(data / "tensorflow" / "ops_v1.pbtxt.xz");
  const Path test_file = data / "census/adult.test.csv";
  const People people(first_lines(test_file, kPeople));
  ASSERT_EQ(people.features.batch_size(), kPeople);
  const TempDir folder;
  const std::vector<std::pair<std::string, Values>> formats{
      {"JSON", as_json(people)},
      {"CSV", {{"csv_row", StringTensor(people.lines)}}},
      {"EXAMPLE", as_examples(people)}};
  for (const auto& [format, inputs] : formats) {
    SCOPED_TRACE(format);
    const Path job_dir = folder / format;
    const auto outcome = testing::run_program(
        CENSUS_PROGRAM, {"--train-files", data / "census/adult.data.csv", "--eval-files", test_file,
                         "--job-dir", job_dir, "--train-steps", "200", "--eval-steps", "1",
                         "--seed", "3", "--export-format", format});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Path exported = only_folder_in(job_dir / "export" / "census");
    EXPECT_NO_THROW(registry.check(graph::read_saved_model(exported).meta_graphs.at(0).graph));
    const auto model = ExecutableModel::load(exported);
    if (format == "JSON") {
      EXPECT_THAT(names_of(model), ElementsAre("predict", "serving_default"));
    } else {
      EXPECT_THAT(names_of(model),
                  ElementsAre("classification", "predict", "regression", "serving_default"));
    }
    const Features wanted = predicted(job_dir, people);
    const Values answers = model.run("predict", inputs);
    const auto answer = [&](const char* name) { return std::get<at::Tensor>(answers.at(name)); };
    EXPECT_TRUE(at::equal(answer("class_ids"), wanted.tensor("class_ids")));
    for (const char* name : {"logits", "probabilities", "logistic"}) {
      const double apart = relative_distance(answer(name), wanted.tensor(name));
      EXPECT_LE(apart, 5e-5) << name;
      RecordProperty(format + "_" + name, fmt::format("{:g}", apart));
    }
    if (format == "EXAMPLE") {
      const Values again = model.run(
          "predict", {{"example_proto", StringTensor(written_records(folder.path(), people))}});
      const auto sorted = [](const at::Tensor& logits) {
        return std::get<0>(logits.flatten().sort());
      };
      EXPECT_LE(relative_distance(sorted(std::get<at::Tensor>(again.at("logits"))),
                                  sorted(wanted.tensor("logits"))),
                5e-5);
    }
    // Not all alike.
    EXPECT_GT(wanted.tensor("class_ids").sum().item<std::int64_t>(), 0);
  }
}

}  // namespace
}  // namespace muster
