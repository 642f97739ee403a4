#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/dataset/dataset.h"
#include "muster/data/features/census_columns_internal.h"
#include "muster/data/features/collate.h"
#include "muster/data/features/sequence_input.h"
#include "muster/data/records/example_builder.h"
#include "muster/export/export_saved_model.h"
#include "muster/export/inference_graph.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/input_layer.h"
#include "muster/nn/model/wide_and_deep.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/freeze.h"
#include "muster/saved_model/graph/join.h"
#include "muster/saved_model/graph/op_registry.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/boosted_trees/boosted_trees.h"
#include "muster/train/canned/canned.h"

// Models with feature columns take raw values, and answer what the model answers.
namespace muster::exporting {
namespace {

using executor::ExecutableModel;
using executor::StringTensor;
using executor::Values;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

FeatureColumnList both(FeatureColumnList left, const FeatureColumnList& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

struct Columns {
  FeatureColumnList wide{};
  FeatureColumnList deep{};
  Combiner combiner = Combiner::kSum;

  FeatureColumnList all() const { return both(wide, deep); }
};

// Any weights, none of them 0.
std::shared_ptr<Model> model_of(const Columns& columns) {
  WideAndDeepOptions options{.linear_sparse_combiner = columns.combiner};
  if (!columns.wide.empty()) {
    options.linear_columns = std::make_shared<const ColumnSet>(columns.wide, ColumnUse::kLinear);
  }
  if (!columns.deep.empty()) {
    options.dnn_columns = std::make_shared<const ColumnSet>(columns.deep, ColumnUse::kInputLayer);
    options.hidden_units = {4};
  }
  auto model = std::make_shared<WideAndDeep>(options);
  torch::manual_seed(7);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.uniform_(-1, 1);
  model->eval();
  return model;
}

executor::Value fed(const FeatureValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) return *tensor;
  const auto& strings = std::get<StringColumn>(value);
  return StringTensor({strings.values().begin(), strings.values().end()}, strings.shape());
}

void expect_same(const Features& wanted, const Values& answers) {
  for (const auto& [name, value] : wanted) {
    ASSERT_TRUE(answers.contains(name)) << name;
    const auto& answer = answers.at(name);
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      EXPECT_EQ(std::get<at::Tensor>(answer).sizes(), tensor->sizes()) << name;
      EXPECT_TRUE(at::allclose(std::get<at::Tensor>(answer), *tensor, 1e-5, 1e-5))
          << name << std::get<at::Tensor>(answer) << *tensor;
    } else {
      EXPECT_EQ(std::get<StringTensor>(answer).values(),
                std::get<StringTensor>(fed(value)).values())
          << name;
    }
  }
}

void check_registry(const Path& dir) {
  const auto data = testing::data_dir();
  if (!data) return;
  static const auto newest = graph::OpRegistry::read(*data / "tensorflow" / "ops.pbtxt.xz");
  static const auto claimed = graph::OpRegistry::read(*data / "tensorflow" / "ops_v1.pbtxt.xz");
  const auto graph = graph::read_saved_model(dir).meta_graphs.at(0).graph;
  for (const auto* registry : {&newest, &claimed}) {
    EXPECT_NO_THROW(registry->check(graph));
    EXPECT_THAT(registry->spelt_out_defaults(graph), ::testing::IsEmpty());
  }
}

/// An export of a model, and the model.
class Exported {
 public:
  Exported(std::shared_ptr<Model> model, const ServingInput& input, HeadPtr head = {})
      : model_(std::move(model)), head_(head ? std::move(head) : binary_class_head()) {
    write_model(*model_, head_.get(), input, folder_ / "export");
    check_registry(folder_ / "export");
    executable_ = ExecutableModel::load(folder_ / "export");
  }

  Features predictions(const Features& features) {
    const torch::NoGradGuard no_grad;
    return model_->call({.features = features}, Mode::kPredict, head_.get()).predictions;
  }
  void expect_same_answers(const Features& features, const Values& inputs,
                           const char* signature = "predict") {
    expect_same(predictions(features), executable_->run(signature, inputs));
  }
  /// Features as they are, all rows and each alone.
  void expect_same_answers(const Features& features) {
    for (std::int64_t row = -1; row < features.batch_size(); ++row) {
      const Features some = row < 0 ? features : features.slice(row, row + 1);
      Values inputs;
      for (const auto& [name, value] : some) inputs.emplace(name, fed(value));
      expect_same_answers(some, inputs);
    }
  }
  const ExecutableModel& executable() const { return *executable_; }
  graph::MetaGraph meta() const {
    return graph::read_saved_model(folder_ / "export").meta_graphs.at(0);
  }
  Path dir() const { return folder_ / "export"; }

 private:
  TempDir folder_;
  std::shared_ptr<Model> model_;
  HeadPtr head_;
  std::optional<ExecutableModel> executable_;
};

void expect_same_as_json(const Columns& columns, const Features& features) {
  Exported exported(model_of(columns), json_serving_input(columns.all()));
  exported.expect_same_answers(features);
}

Features words(std::vector<std::string> values) {
  const auto rows = static_cast<std::int64_t>(values.size());
  return {{"word", StringColumn(std::move(values), {rows})}};
}

at::Tensor longs(const std::vector<std::int64_t>& values) {
  return torch::tensor(values, torch::kLong);
}

TEST(ExportedColumns, HashWordsAndNumbers) {
  const auto word = categorical_column_with_hash_bucket("word", 7);
  const auto number = categorical_column_with_hash_bucket("number", 5, CategoryType::kInt);
  Features features = words({"a", "", "omar", "stringer"});
  features.add("number", longs({101, -1, 201, 301}));
  expect_same_as_json({.wide = {word, number}, .deep = {embedding_column(word, 3)}}, features);
}

TEST(ExportedColumns, LookUpVocabularies) {
  const std::vector<std::string> three{"a", "b", "c"};
  for (const auto& options : {VocabularyOptions{}, {.default_value = 1}, {.num_oov_buckets = 3}}) {
    const auto word = categorical_column_with_vocabulary_list("word", three, options);
    const auto number = categorical_column_with_vocabulary_list(
        "number", std::vector<std::int64_t>{5, 70, 600}, options);
    Features features = words({"c", "unknown", "", "a", "strange"});
    features.add("number", longs({600, 5, -1, 7, 8}));
    expect_same_as_json(
        {.wide = {word, number}, .deep = {indicator_column(word), embedding_column(number, 2)}},
        features);
  }
}

TEST(ExportedColumns, CarryVocabularyFilesAsAssets) {
  const TempDir folder;
  testing::write_bytes(folder / "words.txt", "a\nb b\r\nc\nnot read\n");
  testing::write_bytes(folder / "numbers.txt", "5\n70\n");
  const Columns columns{
      .wide = {
          categorical_column_with_vocabulary_file("word", folder / "words.txt", 3),
          categorical_column_with_vocabulary_file("number", folder / "numbers.txt", {},
                                                  CategoryType::kInt, {.num_oov_buckets = 2})}};
  Exported exported(model_of(columns), json_serving_input(columns.all()));
  Features features = words({"b b", "not read", "a", "c"});
  features.add("number", longs({70, 5, 9, 10}));
  exported.expect_same_answers(features);
  EXPECT_EQ(testing::read_bytes(exported.dir() / "assets" / "words.txt"), "a\nb b\nc\n");
  EXPECT_EQ(graph::asset_files(exported.meta()).size(), 2U);
}

TEST(ExportedColumns, KeepIdsInTheirRange) {
  const auto id = categorical_column_with_identity("id", 4);
  Exported strict(model_of({.wide = {id}, .deep = {indicator_column(id)}}),
                  json_serving_input(FeatureColumnList{id}));
  strict.expect_same_answers({{"id", longs({0, 3, -1, 2})}});
  EXPECT_THAT(message_of([&] {
                strict.executable().run("predict", {{"id", longs({1, 4})}});
              }),
              HasSubstr("column \"id\""));
  const auto lenient = categorical_column_with_identity("id", 4, 2);
  expect_same_as_json({.wide = {lenient}}, {{"id", longs({0, 9, -1, -7, 3})}});
}

TEST(ExportedColumns, PutNumbersIntoBuckets) {
  const auto age = numeric_column("age");
  const auto pair = numeric_column("pair", {.shape = {2}});
  const auto ages = bucketized_column(age, {18, 25});
  const auto pairs = bucketized_column(pair, {0, 10, 100});
  expect_same_as_json({.wide = {ages, pairs, age}, .deep = {ages, pairs, pair}},
                      {{"age", torch::tensor({17.0F, 18.0F, 40.0F})},
                       {"pair", torch::tensor({{-5.0F, 1e4F}, {150.0F, 10.0F}, {5.0F, 100.0F}})}});
}

TEST(ExportedColumns, NormalizeNumbers) {
  const auto money = numeric_column("money", {.normalizer = [](const at::Tensor& x) {
                                      return (torch::log1p(x.to(torch::kFloat)) - 0.7) / 2.4;
                                    }});
  expect_same_as_json({.wide = {bucketized_column(money, {-0.2F, 1})}, .deep = {money}},
                      {{"money", torch::tensor({0.0F, 2174.0F, 99999.0F})}});
  const auto strange =
      numeric_column("money", {.normalizer = [](const at::Tensor& x) { return x.digamma(); }});
  EXPECT_THAT(message_of([&] { expect_same_as_json({.deep = {strange}}, {}); }),
              AllOf(HasSubstr("normalizer of column \"money\""), HasSubstr("aten::digamma")));
}

TEST(ExportedColumns, ComputeFunctionsOfNumbersAndBuckets) {
  const auto age = numeric_column("age");
  const auto share = function_column(
      "share",
      {.sources = {age, bucketized_column(age, {18, 25}), numeric_column("hours")},
       .width = 2,
       .function = [](const at::Tensor& x) {
         return torch::cat({x.slice(1, 0, 1) * x.slice(1, 2, 3), x.slice(1, 4, 5).sqrt()}, 1);
       }});
  expect_same_as_json({.wide = {share}, .deep = {share, age}},
                      {{"age", torch::tensor({17.0F, 18.0F, 40.0F})},
                       {"hours", torch::tensor({4.0F, 9.0F, 0.0F})}});
  const auto strange = function_column(
      "strange", {.sources = {age}, .function = [](const at::Tensor& x) { return x.digamma(); }});
  EXPECT_THAT(message_of([&] { expect_same_as_json({.deep = {strange}}, {}); }),
              AllOf(HasSubstr("function of column \"strange\""), HasSubstr("aten::digamma")));
}

TEST(ExportedColumns, CrossWordsIdsAndBuckets) {
  const auto ages = bucketized_column(numeric_column("age"), {18, 25});
  const auto known =
      categorical_column_with_vocabulary_list("known", std::vector<std::string>{"x", "y"});
  Features features = words({"a", "b", "", "c"});
  features.add("known", StringColumn({"y", "unknown", "x", "x"}, {4}));
  features.add("age", torch::tensor({17.0F, 20.0F, 30.0F, 90.0F}));
  const Columns columns{
      .wide = {crossed_column({"word", "known"}, 11), crossed_column({"word", known, ages}, 1000),
               crossed_column({ages, known}, 13, 5)},
      .deep = {embedding_column(crossed_column({ages, "word"}, 9), 2)}};
  expect_same_as_json(columns, features);
}

TEST(ExportedColumns, TellWhatStandsForAMissingNumber) {
  const Columns columns{.deep = {numeric_column("age", {.default_value = {38}}),
                                 numeric_column("place", {.shape = {2}, .default_value = {1, 2}}),
                                 numeric_column("plain")}};
  const Exported exported(model_of(columns), json_serving_input(columns.all()));
  const auto& defaults = exported.executable().signatures().at("serving_default").defaults;
  EXPECT_EQ(defaults.size(), 2U);
  EXPECT_EQ(defaults.at("age"), graph::TensorValue::vector<float>({38}));
  EXPECT_EQ(defaults.at("place"), graph::TensorValue::of<float>({1, 2}, std::vector<float>{1, 2}));
}

TEST(ExportedColumns, ShareTables) {
  const auto first = categorical_column_with_vocabulary_list("first", {"a", "b", "c"});
  const auto second = categorical_column_with_vocabulary_list("second", {"c", "b", "a"});
  expect_same_as_json({.deep = shared_embedding_columns({first, second}, 3)},
                      {{"first", StringColumn({"a", "c", "?"}, {3})},
                       {"second", StringColumn({"a", "b", "c"}, {3})}});
}

// ------------------------------------------------------------------------------------- Examples

/// People with any number of words, ids and weights.
std::vector<std::string> ragged_examples() {
  const std::vector<std::vector<std::string_view>> bags{
      {"a", "b", "a"}, {}, {"unknown", "c"}, {"b", "", "b", "b"}};
  std::vector<std::string> examples;
  for (std::size_t row = 0; row < bags.size(); ++row) {
    ExampleBuilder builder;
    builder.add_bytes("bag", bags[row]);
    for (std::size_t i = 0; i < bags[row].size(); ++i) {
      builder.add_float("weight", static_cast<float>(i) - 0.5F);
      builder.add_int("id", static_cast<std::int64_t>((row + 2 * i) % 5));
    }
    if (row != 1) builder.add_float("age", 20.0F + static_cast<float>(row));
    examples.push_back(builder.serialize());
  }
  return examples;
}

Features parsed(const std::vector<std::string>& examples, const FeatureSpecs& specs) {
  const auto decoder = std::make_shared<const ExampleDecoder>(specs);
  const auto held = std::make_shared<const std::vector<std::string>>(examples);
  const std::vector<std::string_view> views(held->begin(), held->end());
  return to_features(
      decoder->decode(views), specs,
      std::make_shared<const std::pair<decltype(decoder), decltype(held)>>(decoder, held));
}

TEST(ExportedColumns, ReadExamplesOfAnyLength) {
  const auto bag = categorical_column_with_vocabulary_list("bag", {"a", "b", "c"});
  const auto id = categorical_column_with_identity("id", 5);
  const auto hashed = categorical_column_with_hash_bucket("bag", 6);
  const auto heavy = weighted_categorical_column(bag, "weight");
  const auto age = numeric_column("age", {.default_value = {33}});
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    const Columns columns{
        .wide = {hashed, heavy, id, crossed_column({"bag", id}, 50)},
        .deep = {embedding_column(bag, 3, {.combiner = combiner}),
                 embedding_column(heavy, 2, {.combiner = combiner}),
                 embedding_column(id, 4, {.combiner = combiner, .max_norm = 0.8}),
                 indicator_column(bag), indicator_column(weighted_categorical_column(id, "weight")),
                 age},
        .combiner = combiner};
    Exported exported(model_of(columns), example_serving_input(columns.all()));
    const auto examples = ragged_examples();
    const auto specs = make_parse_example_spec(columns.all());
    exported.expect_same_answers(parsed(examples, specs), {{"examples", StringTensor(examples)}});
    for (const auto& one : examples) {
      exported.expect_same_answers(parsed({one}, specs), {{"examples", StringTensor({one})}});
    }
  }
}

TEST(ExportedColumns, ReadExamplesOfWholeNumbersAsThoseOfFloats) {
  const auto age = numeric_column("age");
  Exported exported(model_of({.deep = {age}}), example_serving_input(FeatureColumnList{age}));
  const auto whole = ExampleBuilder().add_int("age", 39).serialize();
  const auto real = ExampleBuilder().add_float("age", 39).serialize();
  exported.expect_same_answers({{"age", torch::tensor({39.0F, 39.0F})}},
                               {{"examples", StringTensor({whole, real})}});
}

// Inputs that other engines have to feed, where the words of vocabularies are looked up inside.
std::vector<std::string> frozen_inputs(const Exported& exported) {
  const auto meta = exported.meta();
  const BundleReader bundle(graph::variables_prefix(exported.dir()));
  const auto frozen = graph::freeze(meta, graph::find_signature(meta, "predict"), &bundle,
                                    {.numeric = true, .lookups = true});
  std::vector<std::string> keys;
  for (const auto& [key, info] : frozen.signature.inputs) keys.push_back(key);
  return keys;
}

TEST(ExportedColumns, AreInputsByTheirFeaturesWhereTheyCannotBeConverted) {
  const auto age = numeric_column("age");
  const auto ages = bucketized_column(age, {18, 25});
  const auto known =
      categorical_column_with_vocabulary_list("known", std::vector<std::string>{"x", "y"});
  const auto job = categorical_column_with_hash_bucket("job", 9);
  const Columns columns{.wide = {ages, known, job, crossed_column({"known", "job"}, 20)},
                        .deep = {age, indicator_column(known), embedding_column(job, 2)}};
  const Exported by_name(model_of(columns), json_serving_input(columns.all()));
  const Exported by_row(
      model_of(columns),
      csv_serving_input({.fields = {CsvField::int32("age", 0), CsvField::string("job", ""),
                                    CsvField::string("known", ""), CsvField::string("label")},
                         .csv = {.strip_blanks = true}}));
  const Exported by_example(model_of(columns), example_serving_input(columns.all()));
  EXPECT_THAT(frozen_inputs(by_name),
              ElementsAre("age", "job", "job/ids", "job_X_known/ids", "job_X_known/rows", "known"));
  EXPECT_EQ(frozen_inputs(by_row), frozen_inputs(by_name));
  EXPECT_THAT(frozen_inputs(by_example),
              ElementsAre("age", "job/ids", "job/indices", "job_X_known/ids", "job_X_known/rows",
                          "known/indices", "known/values"));
}

TEST(ExportedColumns, ReadRowsWithBlanks) {
  const auto word = categorical_column_with_vocabulary_list("word", std::vector<std::string>{"a"});
  const auto age = numeric_column("age", {.normalizer = [](const at::Tensor& x) {
                                    return x / 2 - 1;  // of whole numbers here
                                  }});
  const std::vector<CsvField> fields{CsvField::int32("age", 30), CsvField::string("word", "a"),
                                     CsvField::string("label")};
  const CsvOptions options{.strip_blanks = true, .na_value = "?"};
  const std::vector<std::string> rows{"17, a ,x", ",b,x", "40,  ,x", "?,?,\"x\"", " 4,\"a\",x"};
  Exported exported(model_of({.wide = {word}, .deep = {age, embedding_column(word, 2)}}),
                    csv_serving_input({.fields = fields, .csv = options, .key = "row"}));
  const CsvDecoder decoder(fields, options);
  const std::vector<std::string_view> views(rows.begin(), rows.end());
  exported.expect_same_answers(to_features(decoder.decode(views), nullptr),
                               {{"row", StringTensor(rows)}});
  EXPECT_THAT(message_of([&] {
                exported.executable().run("predict", {{"row", StringTensor({"1,a"})}});
              }),
              HasSubstr("DecodeCSV"));
}

// -------------------------------------------------------------------------------------- Census

TEST(ExportedCensus, AnswersAsTheModelDoesForAllReceivers) {
  const auto census = internal::census_columns(8, 1000);
  const Columns columns{.wide = census.wide, .deep = census.deep};
  const auto model = model_of(columns);
  const std::size_t rows = 200;
  const Features people = internal::census_features(rows);
  const auto lines = make_synthetic_census(rows, 1).rows;

  Values named;
  std::vector<ExampleBuilder> builders(rows);
  for (const auto& [key, spec] : make_parse_example_spec(columns.all())) {
    const auto& value = people.at(key);
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      const auto numbers = tensor->to(torch::kFloat);
      named.emplace(key, numbers);
      for (std::size_t i = 0; i < rows; ++i) {
        builders[i].add_float(key, numbers[static_cast<std::int64_t>(i)].item<float>());
      }
    } else {
      named.emplace(key, fed(value));
      for (std::size_t i = 0; i < rows; ++i) {
        builders[i].add_bytes(key, std::get<StringColumn>(value).values()[i]);
      }
    }
  }
  std::vector<std::string> examples;
  for (const auto& builder : builders) examples.push_back(builder.serialize());

  std::vector<CsvField> fields;
  for (const auto& [name, value] : people) {
    if (name == "income_bracket") {
      fields.push_back(CsvField::string(name));
    } else if (name == "fnlwgt") {
      fields.push_back(CsvField::ignored(name));
    } else {
      const bool number = std::holds_alternative<at::Tensor>(value);
      fields.push_back(number ? CsvField::int32(name, 0) : CsvField::string(name, ""));
    }
  }
  const auto csv = csv_serving_input({.fields = fields, .csv = {.strip_blanks = true}});

  Exported json(model, json_serving_input(columns.all()));
  json.expect_same_answers(people, named);
  EXPECT_THAT(json.executable().signatures().size(), 2U);

  Exported by_rows(model, with_alternative(csv, "json", json_serving_input(columns.all())));
  by_rows.expect_same_answers(people, {{"csv_row", StringTensor(lines)}});
  by_rows.expect_same_answers(people, named, "json:predict");
  std::vector<std::string> names;
  for (const auto& item : by_rows.executable().signatures()) names.push_back(item.first);
  EXPECT_THAT(names, ElementsAre("classification", "json:predict", "json:serving_default",
                                 "predict", "regression", "serving_default"));
  const auto classified =
      by_rows.executable().run("classification", {{"inputs", StringTensor(lines)}});
  EXPECT_EQ(executor::shape_of(classified.at("classes")),
            (std::vector<std::int64_t>{static_cast<std::int64_t>(rows), 2}));
  EXPECT_EQ(std::get<StringTensor>(classified.at("classes")).values()[3], "1");
  const Features wanted = by_rows.predictions(people);
  EXPECT_TRUE(at::allclose(std::get<at::Tensor>(classified.at("scores")),
                           wanted.tensor("probabilities"), 1e-5, 1e-5));

  Exported by_examples(model, example_serving_input(columns.all()));
  by_examples.expect_same_answers(people, {{"examples", StringTensor(examples)}});
}

// --------------------------------------------------------------------------------- other models

TEST(ExportedColumns, StandBesideFeaturesThatTheModelReadsItself) {
  struct Mixed : Model {
    Mixed() {
      const auto word = categorical_column_with_hash_bucket("word", 7);
      input = register_module(
          "input", std::make_shared<InputLayer>(std::make_shared<ColumnSet>(
                       FeatureColumnList{embedding_column(word, 2)}, ColumnUse::kInputLayer)));
    }
    torch::Tensor forward(const Features& x) override {
      return (input->forward(x).sum(1) * x.tensor("scale")).unsqueeze(1);
    }
    std::shared_ptr<InputLayer> input;
  };
  const auto model = std::make_shared<Mixed>();
  model->eval();
  Features features = words({"a", "b", "c"});
  features.add("scale", torch::tensor({1.5F, -2.0F, 3.0F}));
  Exported raw(model, raw_serving_input(features));
  raw.expect_same_answers(features);
  Exported json(model,
                json_serving_input(FeatureSpecs{{"word", VarLen{.kind = FeatureKind::kBytes}},
                                                {"scale", FixedLen{.kind = FeatureKind::kFloat}}}));
  json.expect_same_answers(features);
}

TEST(ExportedColumns, HaveNodesOfNamesThatTensorFlowAllows) {
  const std::string key = "_W\u00f6rter, 1";
  const Columns columns{.wide = {categorical_column_with_hash_bucket(key, 5)}};
  Exported exported(model_of(columns), json_serving_input(columns.all()));
  exported.expect_same_answers({{key, StringColumn({"a", "b"}, {2})}});
  const std::regex allowed("[A-Za-z0-9.][A-Za-z0-9_.\\\\/>-]*");
  for (const auto& node : exported.meta().graph.nodes) {
    EXPECT_TRUE(std::regex_match(node.name, allowed)) << node.name;
  }
}

TEST(ExportedColumns, NameWhatTheServingInputLacks) {
  const auto word = categorical_column_with_hash_bucket("word", 7);
  const auto other = categorical_column_with_hash_bucket("other", 7);
  const auto model = model_of({.wide = {word}});
  const TempDir folder;
  const auto message = [&](const ServingInput& input) {
    return message_of(
        [&] { write_model(*model, binary_class_head().get(), input, folder / "export"); });
  };
  EXPECT_THAT(message(json_serving_input(FeatureColumnList{other})),
              AllOf(HasSubstr("\"word\""), HasSubstr("other")));
  const ServingInput numbers =
      json_serving_input(FeatureSpecs{{"word", VarLen{.kind = FeatureKind::kInt64}}});
  EXPECT_THAT(message(numbers), HasSubstr("strings"));
  EXPECT_THAT(
      message(with_alternative(json_serving_input(FeatureColumnList{word}), "alt", numbers)),
      HasSubstr("column \"word\" reads strings"));
}

TEST(ExportedColumns, AreNotReadInsideOfATrace) {
  struct Hidden : Model {
    torch::Tensor forward(const Features& x) override { return layer.forward(x); }
    // Not registered as a module.
    InputLayer layer{std::make_shared<ColumnSet>(
        FeatureColumnList{embedding_column(categorical_column_with_hash_bucket("word", 7), 1)},
        ColumnUse::kInputLayer)};
  };
  struct Sequences : Model {
    torch::Tensor forward(const Features& x) override {
      return sequence_input({sequence_categorical_column_with_hash_bucket("word", 7)}, x)
          .lengths.unsqueeze(1);
    }
  };
  const TempDir folder;
  const auto input = json_serving_input(FeatureSpecs{{"word", VarLen{FeatureKind::kBytes}}});
  const auto message = [&](Model& model) {
    return message_of([&] { write_model(model, regression_head().get(), input, folder / "x"); });
  };
  EXPECT_THAT(message(*std::make_shared<Hidden>()),
              AllOf(HasSubstr("\"word_embedding\""), HasSubstr("register those as modules")));
  EXPECT_THAT(message(*std::make_shared<Sequences>()), HasSubstr("sequence column \"word\""));
}

TEST(ExportedColumns, AreToldApartByTheirNames) {
  struct Towers : Model {
    Towers(const FeatureColumn& left, const FeatureColumn& right) {
      for (const auto& column : {left, right}) {
        layers.push_back(std::make_shared<InputLayer>(std::make_shared<ColumnSet>(
            FeatureColumnList{embedding_column(column, 1)}, ColumnUse::kInputLayer)));
        register_module("layer" + std::to_string(layers.size()), layers.back());
      }
    }
    torch::Tensor forward(const Features& x) override {
      return layers[0]->forward(x) * layers[1]->forward(x);
    }
    std::vector<std::shared_ptr<InputLayer>> layers;
  };
  const auto column = [](const char* key, std::vector<std::string> both) {
    return categorical_column_with_vocabulary_list(key, std::move(both));
  };
  const auto ab = column("word", {std::string("a"), "b"});
  const auto ba = column("word", {std::string("b"), "a"});
  const auto other = column("other", {std::string("b"), "a"});
  const TempDir folder;
  const auto mixed = std::make_shared<Towers>(ab, ba);
  EXPECT_THAT(message_of([&] {
                write_model(*mixed, regression_head().get(),
                            json_serving_input(FeatureColumnList{ab}), folder / "x");
              }),
              HasSubstr("\"word_embedding\""));
  const auto model = std::make_shared<Towers>(ab, other);
  Exported exported(model, json_serving_input(FeatureColumnList{ab, other}), regression_head());
  Features features = words({"a", "b", "a"});
  features.add("other", StringColumn({"a", "b", "b"}, {3}));
  exported.expect_same_answers(features);
}

// "hash = StringToHashBucketFast(word)" a line, without variables, constants and the head.
std::string columns_outline(const graph::GraphDef& graph) {
  std::string text;
  for (const auto& node : graph.nodes) {
    const bool plain =
        node.op == "Const" || node.op == "VarHandleOp" || node.op == "ReadVariableOp";
    if (plain || node.name.starts_with("save/") || node.name.starts_with("head/")) continue;
    text += node.name + " = " + node.op + "(";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + node.inputs[i];
    text += ")\n";
  }
  return text;
}

TEST(ExportedColumns, BecomeOperationsOfTensorFlow) {
  const auto word = categorical_column_with_vocabulary_list("word", std::vector<std::string>{"a"});
  const Columns columns{.wide = {word, bucketized_column(numeric_column("age"), {18})}};
  const Exported exported(
      model_of(columns),
      csv_serving_input({.fields = {CsvField::int32("age", 0), CsvField::string("word", ""),
                                    CsvField::ignored("rest")},
                         .csv = {.strip_blanks = true}}),
      regression_head());
  EXPECT_EQ(columns_outline(exported.meta().graph), R"(csv_row = Placeholder()
DecodeCSV/DecodeCSV = DecodeCSV(csv_row, Const, Const_1, Const_1)
age = Identity(DecodeCSV/DecodeCSV)
word/StringStrip = StringStrip(DecodeCSV/DecodeCSV:1)
word = Identity(word/StringStrip)
Shape = Shape(age)
batch_size = StridedSlice(Shape, Const, Const_2, Const_2)
age/ExpandDims = ExpandDims(age, age/Const)
age/Cast = Cast(age/ExpandDims)
age_bucketized/Bucketize = Bucketize(age/Cast)
age_bucketized/Cast = Cast(age_bucketized/Bucketize)
age_bucketized/GreaterEqual = GreaterEqual(age_bucketized/Cast, age_bucketized/Const)
age_bucketized/indices = Where(age_bucketized/GreaterEqual)
age_bucketized/Reshape = Reshape(age_bucketized/Cast, age_bucketized/Const_1)
age_bucketized/strided_slice = StridedSlice(age_bucketized/indices, age_bucketized/Const_2, age_bucketized/Const_3, age_bucketized/Const_4)
age_bucketized/ids = Identity(age_bucketized/Reshape)
age_bucketized/rows = Cast(age_bucketized/strided_slice)
word/ExpandDims = ExpandDims(word, age/Const)
word/NotEqual = NotEqual(word/ExpandDims, word/Const)
word/indices = Where(word/NotEqual)
word/GatherNd = GatherNd(word/ExpandDims, word/indices)
word/hash_table = HashTableV2()
word/table_init = InitializeTableV2(word/hash_table, word/Const_1, word/Const_2)
word/lookup = LookupTableFindV2(word/hash_table, word/GatherNd, word/Const_3)
word/GreaterEqual = GreaterEqual(word/lookup, age_bucketized/Const)
word/kept = Where(word/GreaterEqual)
word/GatherNd_1 = GatherNd(word/indices, word/kept)
word/GatherNd_2 = GatherNd(word/lookup, word/kept)
word/strided_slice = StridedSlice(word/GatherNd_1, age_bucketized/Const_2, age_bucketized/Const_3, age_bucketized/Const_4)
word/ids = Identity(word/GatherNd_2)
word/rows = Cast(word/strided_slice)
linear/linear_model/age_bucketized/lookup = SparseSegmentSumWithNumSegments(linear/linear_model/age_bucketized/weights/Read/ReadVariableOp, age_bucketized/ids, age_bucketized/rows, batch_size)
linear/linear_model/word/lookup = SparseSegmentSumWithNumSegments(linear/linear_model/word/weights/Read/ReadVariableOp, word/ids, word/rows, batch_size)
linear/linear_model/age_bucketized/AddV2 = AddV2(linear/linear_model/age_bucketized/lookup, linear/linear_model/word/lookup)
linear/linear_model/AddV2 = AddV2(linear/linear_model/age_bucketized/AddV2, linear/linear_model/bias_weights/Read/ReadVariableOp)
init_all_tables = NoOp(^word/table_init)
)");
  EXPECT_EQ(graph::init_op(exported.meta()), "init_all_tables");
}

// ---------------------------------------------------------------------------- canned estimators

std::vector<std::string> signatures_of(const Estimator& estimator, const ServingInput& input) {
  std::vector<std::string> names;
  for (const auto& item : inference_graph(estimator, input).meta.signatures) {
    names.push_back(item.first + " " + item.second.method_name.substr(19));
  }
  return names;
}

TEST(InferenceGraphs, AreThereForCannedEstimators) {
  const FeatureColumnList columns{bucketized_column(numeric_column("age"), {18, 25}),
                                  indicator_column(categorical_column_with_hash_bucket("word", 7))};
  const auto examples = example_serving_input(columns);
  const TempDir folder;
  const RunConfig config = RunConfig{.model_dir = folder.path()};
  const auto classifies = ElementsAre("classification classify", "predict predict",
                                      "regression regress", "serving_default classify");
  EXPECT_THAT(signatures_of(linear_classifier({.feature_columns = columns}, config), examples),
              classifies);
  EXPECT_THAT(
      signatures_of(dnn_classifier({.hidden_units = {3}, .feature_columns = columns}, config),
                    examples),
      classifies);
  EXPECT_THAT(signatures_of(baseline_classifier({}, config), examples), classifies);
  const auto regresses =
      ElementsAre("predict predict", "regression regress", "serving_default regress");
  EXPECT_THAT(signatures_of(linear_regressor({.feature_columns = columns}, config), examples),
              regresses);
  EXPECT_THAT(
      signatures_of(dnn_regressor({.hidden_units = {3}, .feature_columns = columns}, config),
                    examples),
      regresses);
  EXPECT_THAT(signatures_of(baseline_regressor({}, config), examples), regresses);
  EXPECT_THAT(signatures_of(baseline_regressor({}, config), json_serving_input(columns)),
              ElementsAre("predict predict", "serving_default predict"));
}

TEST(InferenceGraphs, GiveWithACheckpointWhatTheEstimatorPredicts) {
  const TempDir folder;
  testing::write_bytes(folder / "words.txt", "a\nb\nc\n");
  const FeatureColumnList columns{
      categorical_column_with_vocabulary_file("word", folder / "words.txt")};
  auto estimator =
      linear_classifier({.feature_columns = columns}, RunConfig{.model_dir = folder / "model"});
  write_inference_graph(inference_graph(estimator, json_serving_input(columns)), folder / "model");
  const Features features = words({"c", "b", "unknown", "a"});
  const auto input = [&](const InputContext&) {
    return from_vector<Batch>({make_batch(features, longs({1, 0, 0, 1}).unsqueeze(1))});
  };
  estimator.train(input, {.max_steps = 1});

  const BundleReader checkpoint(*estimator.latest_checkpoint());
  graph::write_joined_model(graph::read_inference_graph(folder / "model"),
                            graph::inference_assets_dir(folder / "model"), checkpoint,
                            folder / "joined");
  auto predictions = estimator.predict(input, {.yield_single_examples = false});
  const Features wanted = *predictions.next();
  EXPECT_GT(wanted.tensor("logits").abs().max().item<float>(), 0);
  expect_same(wanted, ExecutableModel::load(folder / "joined")
                          .run("predict", {{"word", fed(features.at("word"))}}));
}

TEST(InferenceGraphs, AreRefusedForBoostedTrees) {
  if (!MUSTER_HAS_XGBOOST) GTEST_SKIP() << "built without libxgboost";
  const FeatureColumnList columns{numeric_column("age")};
  const TempDir folder;
  const auto trees =
      boosted_trees_classifier({.feature_columns = columns}, RunConfig{.model_dir = folder.path()});
  EXPECT_THAT(message_of([&] { inference_graph(trees, json_serving_input(columns)); }),
              HasSubstr("boosted trees cannot be exported"));
}

}  // namespace
}  // namespace muster::exporting
