#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>
#include <map>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/features/census_columns_internal.h"
#include "muster/data/records/example_builder.h"
#include "muster/export/export_saved_model.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/canned/canned.h"

// An exported wide and deep model answers requests of some rows in an arena, with the same bits.
namespace muster::exporting {
namespace {

using executor::ExecutableModel;
using executor::StringTensor;
using executor::Values;

/// The census model after a step of training, loaded with and without an arena.
struct CensusExport {
  explicit CensusExport(bool by_examples) {
    const auto columns = internal::census_columns(/*embedding_size=*/8, /*cross_size=*/10'000);
    log::set_level(log::Level::kWarning);
    auto estimator = dnn_linear_combined_classifier({.linear_columns = columns.wide,
                                                     .dnn_columns = columns.deep,
                                                     .hidden_units = {100, 70, 48, 34}},
                                                    RunConfig{.model_dir = folder / "job"});
    const Batch batch =
        make_batch(internal::census_features(40), torch::randint(0, 2, {40, 1}).to(torch::kFloat));
    estimator.train([&](const InputContext&) { return from_vector<Batch>({batch}); });
    FeatureColumnList all = columns.wide;
    all.insert(all.end(), columns.deep.begin(), columns.deep.end());
    path = export_saved_model(estimator, folder / "census",
                              by_examples ? example_serving_input(all) : json_serving_input(all));
  }
  ExecutableModel load(bool arena) const { return ExecutableModel::load(path, {.arena = arena}); }

  testing::TempDir folder{};
  Path path{};
};

const CensusExport& census() {
  static const CensusExport held(/*by_examples=*/false);
  return held;
}

/// Rows of people, some of whose words are missing or unknown and whose numbers are none.
Values people(const ExecutableModel& model, std::int64_t rows) {
  const std::map<std::string, std::vector<std::string>> words{
      {"workclass", {"State-gov", "?", "", "not known"}},
      {"education", {"Bachelors", "", "HS-grad"}},
      {"marital_status", {"Never-married", "unknown", "Divorced", ""}},
      {"occupation", {"Adm-clerical", "Sales", "", "a very long occupation that no list names"}},
      {"relationship", {"Not-in-family", "Wife"}},
      {"race", {"White", "", "Other"}},
      {"gender", {"Male", "Female", "male", ""}},
      {"native_country", {"United-States", "", "Peru", "\xc3\x84thiopia"}}};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> numbers{39, 0, -17, 1e30F, nan, 64.5F, -0.0F};
  Values inputs;
  for (const auto& [name, info] : model.signatures().at("serving_default").inputs) {
    const auto at = [&](const auto& choices, std::int64_t row) {
      return choices[static_cast<std::size_t>(row * 3 + row / 5) % choices.size()];
    };
    if (info.dtype == graph::DataType::kString) {
      std::vector<std::string> values;
      for (std::int64_t i = 0; i < rows; ++i) values.push_back(at(words.at(name), i));
      inputs.emplace(name, StringTensor(std::move(values)));
    } else {
      auto values = torch::empty({rows}, torch::kFloat);
      for (std::int64_t i = 0; i < rows; ++i) values[i] = at(numbers, i);
      inputs.emplace(name, values.to(executor::scalar_type(info.dtype)));
    }
  }
  return inputs;
}

executor::TensorValues to_tensors(const Values& values) {
  executor::TensorValues out;
  for (const auto& [name, value] : values) out.emplace(name, executor::to_tensor_value(value));
  return out;
}

TEST(CensusInAnArena, GivesTheSameBitsForAnyNumberOfRows) {
  const auto fast = census().load(true);
  const auto plain = census().load(false);
  ASSERT_TRUE(fast.has_arena("serving_default"));
  EXPECT_FALSE(plain.has_arena("serving_default"));
  for (const std::int64_t rows : {1, 2, 7, 64, 200}) {
    const Values inputs = people(plain, rows);
    const auto wanted = to_tensors(plain.run("serving_default", inputs));
    EXPECT_EQ(to_tensors(fast.run("serving_default", inputs)), wanted) << rows;
    const auto answer = fast.run_in_arena("serving_default", to_tensors(inputs));
    ASSERT_TRUE(answer) << rows;
    EXPECT_EQ(*answer, wanted) << rows;
  }
}

TEST(CensusInAnArena, GivesARowWhatItWouldGetAlone) {
  const auto model = census().load(true);
  const Values all = people(model, 64);
  const auto together = model.run("serving_default", all);
  for (const std::int64_t row : {0, 5, 63}) {
    Values one;
    for (const auto& [name, value] : all) {
      if (const auto* strings = std::get_if<StringTensor>(&value)) {
        one.emplace(name, StringTensor({strings->values()[static_cast<std::size_t>(row)]}, {1}));
      } else {
        one.emplace(name, std::get<at::Tensor>(value).slice(0, row, row + 1).clone());
      }
    }
    const auto alone = model.run("serving_default", one);
    for (const auto* name : {"logits", "logistic", "probabilities"}) {
      const auto of_all = std::get<at::Tensor>(together.at(name)).slice(0, row, row + 1);
      EXPECT_EQ(executor::to_tensor_value(of_all), executor::to_tensor_value(alone.at(name)))
          << name << " of row " << row;
    }
  }
}

/// The same people as serialized tf.Examples, in which words that are missing are not there.
std::vector<std::string> as_examples(const Values& people) {
  std::vector<ExampleBuilder> builders;
  for (const auto& [name, value] : people) {
    builders.resize(static_cast<std::size_t>(executor::shape_of(value)[0]));
    for (std::size_t i = 0; i < builders.size(); ++i) {
      if (const auto* strings = std::get_if<StringTensor>(&value)) {
        if (!strings->values()[i].empty()) builders[i].add_bytes(name, strings->values()[i]);
      } else {
        const auto row = static_cast<std::int64_t>(i);
        builders[i].add_float(name,
                              std::get<at::Tensor>(value)[row].to(torch::kFloat).item<float>());
      }
    }
  }
  std::vector<std::string> out;
  for (const ExampleBuilder& builder : builders) out.push_back(builder.serialize());
  return out;
}

TEST(CensusInAnArena, ParsesExamplesByTheOperationsOwnKernel) {
  const CensusExport exported(/*by_examples=*/true);
  const auto fast = exported.load(true);
  const auto plain = exported.load(false);
  for (const std::int64_t rows : {1, 7, 64}) {
    const Values inputs{
        {"examples", StringTensor(as_examples(people(census().load(false), rows)))}};
    for (const auto& [signature, info] : plain.signatures()) {
      if (!info.inputs.contains("examples")) continue;
      ASSERT_TRUE(fast.has_arena(signature)) << signature;
      const auto wanted = to_tensors(plain.run(signature, inputs));
      EXPECT_EQ(to_tensors(fast.run(signature, inputs)), wanted) << signature << " " << rows;
      const auto answer = fast.run_in_arena(signature, to_tensors(inputs));
      ASSERT_TRUE(answer) << signature;
      EXPECT_EQ(*answer, wanted) << signature << " " << rows;
    }
  }
}

TEST(CensusInAnArena, HasTheErrorsOfThePlan) {
  const auto fast = census().load(true);
  const auto plain = census().load(false);
  const auto error_of = [](const ExecutableModel& model, const Values& inputs) -> std::string {
    try {
      model.run("serving_default", inputs);
      return "none";
    } catch (const Error& error) {
      return error.what();
    }
  };
  // Columns of different lengths, no rows, a wrong type, a wrong shape, one that is missing.
  Values shorter = people(plain, 3);
  shorter["occupation"] = StringTensor(std::vector<std::string>{"Sales"});
  Values longer = people(plain, 3);
  longer["age"] = torch::ones({5}, std::get<at::Tensor>(longer["age"]).scalar_type());
  Values other = people(plain, 2);
  other["age"] = StringTensor({"a", "b"}, {2});
  Values square = people(plain, 2);
  square["race"] = StringTensor({"a", "b"}, {2, 1});
  Values missing = people(plain, 2);
  missing.erase("gender");
  for (const Values& inputs : {shorter, longer, people(plain, 0), other, square, missing}) {
    EXPECT_EQ(error_of(fast, inputs), error_of(plain, inputs));
    EXPECT_FALSE(fast.run_in_arena("serving_default", to_tensors(inputs)) &&
                 error_of(plain, inputs) != "none");
  }
  EXPECT_NE(error_of(fast, shorter), "none");
}

}  // namespace
}  // namespace muster::exporting
