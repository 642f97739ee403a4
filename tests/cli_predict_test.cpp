// `muster predict`, `muster batch-predict`, `muster model run` and `muster export savedmodel`, as
// processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include "muster/base/crc32c.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/data/records/npy.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using graph::DataType;
using graph::Shape;
using graph::TensorInfo;
using graph::TensorValue;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::read_bytes;
using ::testing::StartsWith;
using testing::TempDir;
using testing::Words;
using testing::write_bytes;

// Starts the program that muster would exec: as a fork of one that has loaded libtorch. (The tests
// of examples go through muster.)
Outcome muster_run(const std::vector<std::string>& arguments) {
  const bool needs_torch =
      arguments[0] == "predict" || (arguments[0] == "model" && arguments[1] == "run");
  return testing::run_program(needs_torch ? MUSTER_TORCH_PROGRAM : MUSTER_PROGRAM, arguments);
}

TensorInfo info(const std::string& name, DataType type, const Shape& shape) {
  return {.name = name, .dtype = type, .shape = shape};
}

// Strings in and out, numbers with a constant of another size beside them, and an unknown op.
void write_model(const Path& dir) {
  graph::MetaGraph meta{.tags = {"serve"}};
  const TensorInfo text = info("text:0", DataType::kString, {-1});
  const TensorInfo x = info("x:0", DataType::kFloat, {-1, 2});
  meta.graph.nodes = {
      graph::placeholder_node("text", DataType::kString, {-1}),
      graph::placeholder_node("x", DataType::kFloat, {-1, 2}),
      {.name = "y", .op = "Relu", .inputs = {"x"}, .attrs = {{"T", DataType::kFloat}}},
      graph::constant_node("three", TensorValue::vector<float>({1, 2, 3})),
      {.name = "twin", .op = "AddV2", .inputs = {"x", "three"}, .attrs = {{"T", DataType::kFloat}}},
      {.name = "odd", .op = "Odd", .inputs = {"x"}}};
  const auto add = [&](const char* key, graph::SignatureDef signature) {
    signature.method_name = std::string(graph::kPredictMethod);
    meta.signatures[key] = std::move(signature);
  };
  add("serving_default",
      {.inputs = {{"x", x}}, .outputs = {{"y", info("y:0", DataType::kFloat, {-1, 2})}, {"x", x}}});
  add("text", {.inputs = {{"text", text}}, .outputs = {{"copy", text}, {"copy_bytes", text}}});
  add("bytes", {.inputs = {{"text", text}}, .outputs = {{"copy_bytes", text}}});
  add("both", {.inputs = {{"x", x}, {"text", text}}, .outputs = {{"copy", text}, {"x", x}}});
  add("uneven", {.inputs = {{"x", x}},
                 .outputs = {{"x", x}, {"three", info("three:0", DataType::kFloat, {3})}}});
  add("constant", {.outputs = {{"three", info("three:0", DataType::kFloat, {3})}}});
  add("broken", {.inputs = {{"x", x}}, .outputs = {{"z", info("twin:0", DataType::kFloat, {-1})}}});
  add("unknown", {.inputs = {{"x", x}}, .outputs = {{"z", info("odd:0", DataType::kFloat, {-1})}}});
  graph::write_saved_model(dir, {.meta_graphs = {meta}});
}

// The rows as they are; one that holds 13 is computed for ever.
void write_endless_model(const Path& dir) {
  graph::MetaGraph meta{.tags = {"serve"}};
  const TensorInfo x = info("x:0", DataType::kFloat, {-1});
  meta.graph.nodes = {
      graph::placeholder_node("x", DataType::kFloat, {-1}),
      {.name = "y",
       .op = "StatelessWhile",
       .inputs = {"x"},
       .attrs = {{"cond", graph::FunctionRef{"holds_13"}}, {"body", graph::FunctionRef{"same"}}}}};
  const auto function = [](const char* name, DataType result) {
    graph::FunctionDef made;
    made.signature = {.name = name,
                      .inputs = {{.name = "a", .type = DataType::kFloat}},
                      .outputs = {{.name = "b", .type = result}}};
    return made;
  };
  graph::FunctionDef condition = function("holds_13", DataType::kBool);
  condition.nodes = {graph::constant_node("thirteen", TensorValue::scalar(13.0F)),
                     graph::constant_node("axis", TensorValue::vector<std::int32_t>({0})),
                     {.name = "is", .op = "Equal", .inputs = {"a", "thirteen:output:0"}},
                     {.name = "any", .op = "Any", .inputs = {"is:z:0", "axis:output:0"}}};
  condition.ret = {{"b", "any:output:0"}};
  graph::FunctionDef body = function("same", DataType::kFloat);
  body.ret = {{"b", "a"}};
  meta.graph.functions = {condition, body};
  meta.signatures["serving_default"] = {.inputs = {{"x", x}},
                                        .outputs = {{"y", info("y:0", DataType::kFloat, {-1})}},
                                        .method_name = std::string(graph::kPredictMethod)};
  graph::write_saved_model(dir, {.meta_graphs = {meta}});
}

class Predict : public ::testing::Test {
 protected:
  Predict() { write_model(folder_ / "7"); }

  Outcome predict(const char* flag, const std::string& content,
                  const std::vector<std::string>& more = {}) {
    write_bytes(folder_ / "input", content);
    std::vector<std::string> all{"predict", "--model-dir", folder_ / "7", flag, folder_ / "input"};
    all.insert(all.end(), more.begin(), more.end());
    return muster_run(all);
  }

  std::string refusal(const std::string& content, const std::vector<std::string>& more = {}) {
    const Outcome outcome = predict("--json-instances", content, more);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  }

  TempDir folder_;
};

TEST_F(Predict, PrintsATableWithOneColumnAnOutput) {
  const Outcome outcome =
      predict("--json-instances", "[1, -2.5]\n{\"x\": [0.1, 3]}\n", {"--framework", "tensorflow"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "X                           Y\n"
            "[1.0, -2.5]                 [1.0, 0.0]\n"
            "[0.10000000149011612, 3.0]  [0.10000000149011612, 3.0]\n");
  EXPECT_THAT(outcome.err, HasSubstr("--framework tensorflow is ignored"));
}

TEST_F(Predict, IsWhatGcloudCallsLocalPredict) {
  write_bytes(folder_ / "input", "[1.0, 2.0]\n");
  const std::vector<std::string> words{"predict", "--model-dir", folder_ / "7", "--json-instances",
                                       folder_ / "input"};
  std::vector<std::string> local{"--log-level", "error", "local"};
  local.insert(local.end(), words.begin(), words.end());
  const Outcome outcome = muster_run(local);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, muster_run(words).out);
}

TEST_F(Predict, AnInputWhoseShapeIsNotToldTakesAny) {
  std::filesystem::create_directories(folder_ / "any");
  write_bytes(folder_ / "any/saved_model.pbtxt", R"(
    saved_model_schema_version: 1
    meta_graphs {
      meta_info_def { tags: "serve" }
      graph_def {
        node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "y" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } } }
      signature_def { key: "serving_default" value {
        inputs { key: "x" value { name: "x:0" dtype: DT_FLOAT } }
        outputs { key: "y" value { name: "y:0" dtype: DT_FLOAT } }
        method_name: "tensorflow/serving/predict" } } })");
  write_bytes(folder_ / "input", "[1, 2.5]\n[3, 4]\n");
  const Outcome outcome = muster_run(
      {"predict", "--model-dir", folder_ / "any", "--json-instances", folder_ / "input", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("-2.5"), HasSubstr("-4.0")));
}

TEST_F(Predict, TakesTextAndGivesBytesInBase64) {
  const Outcome outcome =
      predict("--text-instances", "caf\xC3\xA9\n39, x\n", {"--signature-name", "text"});
  EXPECT_EQ(outcome.out,
            "COPY   COPY_BYTES\n"
            "caf\xC3\xA9   {'b64': 'Y2Fmw6k='}\n"
            "39, x  {'b64': 'MzksIHg='}\n")
      << outcome.err;
  const Outcome bytes =
      predict("--json-instances", "{\"b64\": \"/wA=\"}", {"--signature-name", "bytes", "--json"});
  EXPECT_EQ(bytes.out, "{\"predictions\": [\n  {\"copy_bytes\": {\"b64\": \"/wA=\"}}\n]}\n")
      << bytes.err;
}

TEST_F(Predict, TakesARequestWithItsSignatureFromStandardInput) {
  write_bytes(folder_ / "request",
              R"({"signature_name": "both", "instances": [{"text": "a", "x": [NaN, 2]}]})");
  const Outcome outcome = testing::run_program(
      "/bin/sh", {"-c", std::string(MUSTER_PROGRAM) + " predict --json --model-dir '" +
                            folder_.path().string() + "' --json-request - < '" +
                            (folder_ / "request").string() + "'"});
  EXPECT_EQ(outcome.out, "{\"predictions\": [\n  {\"copy\": \"a\", \"x\": [NaN, 2.0]}\n]}\n")
      << outcome.err;
}

TEST_F(Predict, NumbersItsErrorsAsCloudMlEngineDoes) {
  EXPECT_THAT(refusal("1\n", {"--signature-name", "none"}),
              StartsWith("muster: Invalid inputs: No signature found for signature key none."));
  EXPECT_THAT(refusal("{\"y\": 1}"),
              HasSubstr("Expected tensor name: x, got tensor name: ['y']. (Error code: 1)"));
  EXPECT_THAT(refusal("{\"text\": \"a\"}", {"--signature-name", "both"}),
              HasSubstr("Input x was missing in at least one input instance."));
  EXPECT_THAT(refusal("[1, 2]", {"--signature-name", "broken"}),
              ::testing::AllOf(StartsWith("muster: Failed to run the provided model: "),
                               HasSubstr("twin"), EndsWith("(Error code: 2)\n")));
  EXPECT_THAT(refusal("[1, 2]", {"--signature-name", "uneven"}),
              ::testing::AllOf(StartsWith("muster: There was a problem processing the outputs: "),
                               HasSubstr("three: 3, x: 1"), EndsWith("(Error code: 3)\n")));
  EXPECT_THAT(refusal("[1, 2]", {"--signature-name", "unknown"}),
              ::testing::AllOf(StartsWith("muster: Failed to load model: "), HasSubstr("Odd"),
                               EndsWith("(Error code: 0)\n")));
  EXPECT_THAT(refusal("{\"b64\": \"/wA=\"}", {"--signature-name", "text"}),
              ::testing::AllOf(HasSubstr("output copy: a string is no UTF-8 text"),
                               EndsWith("(Error code: 3)\n")));
}

TEST_F(Predict, SaysWhatIsWrongWithTheFile) {
  EXPECT_THAT(refusal(""), HasSubstr("input: No valid instance was found in input file."));
  EXPECT_THAT(refusal("[1, 2]\n\n"), HasSubstr("Empty line is not allowed in the instances file."));
  EXPECT_THAT(refusal("[1, 2"), HasSubstr("Input instances are not in JSON format: line 1"));
  EXPECT_THAT(predict("--json-request", "{}").err,
              HasSubstr("Invalid JSON request: missing \"instances\" attribute"));
  EXPECT_EQ(muster_run({"predict", "--model-dir", folder_ / "7"}).status, 2);
  EXPECT_EQ(predict("--json-instances", "1", {"--text-instances", "x"}).status, 2);
  EXPECT_EQ(predict("--json-instances", "1", {"--format", "json"}).status, 2);
  EXPECT_THAT(
      muster_run({"predict", "--model-dir", folder_ / "7", "--json-instances", folder_ / "nothing"})
          .err,
      HasSubstr("nothing"));
}

TEST_F(Predict, TakesTheHighestOfNumberedFoldersAndExplainsOthers) {
  const auto in = [&](const Path& dir) {
    write_bytes(folder_ / "input", "[1, 2]\n");
    return muster_run({"predict", "--model-dir", dir, "--json-instances", folder_ / "input"});
  };
  std::filesystem::create_directories(folder_ / "12");
  EXPECT_EQ(in(folder_.path()).status, 0);
  const TempDir training;
  EXPECT_THAT(in(training.path()).err, HasSubstr("nor folders of numbers that do"));
  write_bytes(training / "graph.pb", "");
  EXPECT_THAT(in(training.path()).err,
              HasSubstr("is the folder of a training and has no export yet: make one with muster "
                        "export savedmodel --model-dir"));
  write_model(training / "export/best/42");
  EXPECT_THAT(in(training.path()).err, HasSubstr("export/best/42 (Error code: 0)"));
}

TEST_F(Predict, AnswersWithModelsOfTensorFlow) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  write_bytes(folder_ / "numbers", "{\"x\": [1]}\n[5]\n");
  const Outcome half = muster_run({"predict", "--model-dir", data / "tensorflow/half_plus_two",
                                   "--json-instances", folder_ / "numbers"});
  EXPECT_EQ(half.out, "Y\n[2.5]\n[4.5]\n") << half.err;
  write_bytes(folder_ / "words", "[\"foo\", \"bar\"]\n");
  const Outcome table = muster_run({"predict", "--model-dir", data / "tensorflow/static_hash_table",
                                    "--json-instances", folder_ / "words"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, StartsWith("OUTPUT_0\n["));
  const Outcome scalars =
      muster_run({"predict", "--model-dir", data / "tensorflow/vars_and_arithmetic",
                  "--json-instances", folder_ / "numbers"});
  EXPECT_EQ(scalars.status, 1);
}

class BatchPredict : public Predict {
 protected:
  /// Flags of `more` stand in for those that are always given.
  Outcome batch(const std::string& format, const std::string& content,
                const std::vector<std::string>& more = {},
                const testing::ProgramOptions& options = {}) {
    write_bytes(folder_ / "input", content);
    std::vector<std::string> all{"batch-predict"};
    const std::vector<std::pair<std::string, std::string>> usual{
        {"--model-dir", folder_ / "7"},
        {"--input-paths", folder_ / "inp*"},
        {"--data-format", format},
        {"--output-path", folder_ / "out"}};
    for (const auto& [flag, value] : usual) {
      if (std::ranges::find(more, flag) != more.end()) continue;
      all.insert(all.end(), {flag, value});
    }
    all.insert(all.end(), more.begin(), more.end());
    return testing::RunningProgram(MUSTER_PROGRAM, all, options).wait();
  }

  std::string out(const char* name) const { return read_bytes(folder_ / "out" / name); }
};

TEST_F(BatchPredict, WritesResultsAndErrorsOfEveryShard) {
  const std::vector<std::string> flags{"--batch-size", "1", "--max-worker-count", "3"};
  const Outcome outcome = batch("text", "[1, -2.5]\n[1]\n{\"x\": [0.5, 3]}\n", flags);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(StartsWith("errorCount: '1'\nnodeHours: "),
                                 EndsWith("predictionCount: '2'\n")));
  EXPECT_THAT(outcome.err, HasSubstr("1 of 3 instances could not be answered"));
  EXPECT_EQ(out("prediction.results-00000-of-00003"), "{\"x\": [1.0, -2.5], \"y\": [1.0, 0.0]}\n");
  EXPECT_EQ(out("prediction.results-00001-of-00003"), "");
  EXPECT_THAT(out("prediction.errors_stats-00001-of-00003"),
              AllOf(HasSubstr("input line 2"), HasSubstr("(Error code: 1)")));
  EXPECT_EQ(out("prediction.results-00002-of-00003"), "{\"x\": [0.5, 3.0], \"y\": [0.5, 3.0]}\n");
  // Once more, it has nothing to do.
  const Outcome again = batch("JSON", "[1, -2.5]\n[1]\n{\"x\": [0.5, 3]}\n", flags);
  EXPECT_THAT(again.err, HasSubstr("--output-path"));  // The file is another: its time is.
  EXPECT_EQ(again.status, 1);
}

TEST_F(BatchPredict, FailsWhereNoInstanceIsAnswered) {
  const Outcome outcome = batch("json", "[1, 2]\n[3, 4]\n", {"--signature-name", "broken"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("errorCount: '2'"));
  EXPECT_THAT(outcome.err, HasSubstr("no instance could be answered"));
  EXPECT_THAT(out("prediction.errors_stats-00000-of-00001"), HasSubstr("(Error code: 2)"));
}

TEST_F(BatchPredict, RefusesWhatCannotWorkBeforeItWritesAnything) {
  const auto refusal = [&](const std::string& format, const std::vector<std::string>& more,
                           int status = 1) {
    const Outcome outcome = batch(format, "[1, 2]\n", more);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out/.batch_predict"));
    return outcome.err;
  };
  EXPECT_THAT(refusal("xml", {}, 2), StartsWith("muster: --data-format: 'xml' is no format"));
  EXPECT_THAT(refusal("json", {"--output-format", "tf-record"}, 2),
              StartsWith("muster: --output-format: "));
  EXPECT_THAT(refusal("json", {"--signature-name", "none"}),
              StartsWith("muster: Invalid inputs: No signature found for signature key none."));
  EXPECT_THAT(refusal("tf-record", {}), HasSubstr("--data-format tf-record gives strings"));
  EXPECT_THAT(refusal("json", {"--input-paths", folder_ / "absent*"}), HasSubstr("absent*"));
  EXPECT_THAT(refusal("json", {"--output-path", folder_ / "input/x"}), HasSubstr("input/x"));
  EXPECT_THAT(refusal("json", {"--model-dir", folder_ / "absent"}),
              StartsWith("muster: Failed to load model: "));
}

// Output of a command without its progress lines, which a slow machine prints every few seconds.
std::string without_progress(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" I predicted instances=") == line.npos) out += line + '\n';
  }
  return out;
}

TEST_F(BatchPredict, SaysOnceWhatAllWorkersFailWith) {
  const Outcome outcome =
      batch("json", "[1, 2]\n[1, 2]\n", {"--signature-name", "unknown", "--batch-size", "1"});
  EXPECT_EQ(outcome.status, 1);
  const std::string said = without_progress(outcome.err);
  EXPECT_THAT(said, StartsWith("muster: Failed to load model: "));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << outcome.err;
}

TEST_F(BatchPredict, SaysOnceThatTheDiskIsFullAndGoesOnWhenItIsNot) {
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += "[1, 2]\n";
  const Outcome full = batch("json", lines, {"--max-worker-count", "1"}, {.most_file_bytes = 4096});
  EXPECT_EQ(full.status, 1);
  const std::string said = without_progress(full.err);
  EXPECT_THAT(said, AllOf(StartsWith("muster: "), HasSubstr("shard-00000.results"),
                          HasSubstr("File too large")));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << full.err;
  const auto flags = std::vector<std::string>{"batch-predict",
                                              "--model-dir",
                                              folder_ / "7",
                                              "--input-paths",
                                              folder_ / "input",
                                              "--data-format",
                                              "json",
                                              "--output-path",
                                              folder_ / "out",
                                              "--max-worker-count",
                                              "1"};
  const Outcome whole = muster_run(flags);
  EXPECT_EQ(whole.status, 0) << whole.err;
  EXPECT_EQ(std::ranges::count(out("prediction.results-00000-of-00001"), '\n'), 3000);
  const Outcome again = muster_run(flags);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, whole.out);
}

TEST_F(BatchPredict, AnswersTheInstancesAroundOneThatEndsItsWorkers) {
  write_endless_model(folder_ / "endless");
  std::string lines;
  std::string wanted;
  for (int i = 0; i < 40; ++i) {
    lines += fmt::format("{}\n", i);
    if (i != 13) wanted += fmt::format("{{\"y\": {}.0}}\n", i);
  }
  write_bytes(folder_ / "input", lines);
  testing::RunningProgram program(
      MUSTER_PROGRAM, {"batch-predict", "--model-dir", folder_ / "endless", "--input-paths",
                       folder_ / "input", "--data-format", "json", "--output-path", folder_ / "out",
                       "--batch-size", "16", "--max-worker-count", "1", "--max-operations",
                       "1000000000000", "--max-calls", "1000000000000"});
  // Each worker that is at the endless instance dies of it: the first as if from elsewhere.
  std::vector<std::uint64_t> sizes;
  std::uint64_t last = 0;
  while (!program.ended()) {
    std::array<std::uint64_t, 3> mark{};
    const Path path = folder_ / "out/.batch_predict/shard-00000.mark";
    const std::string bytes = std::filesystem::exists(path) ? read_bytes(path) : "";
    std::memcpy(mark.data(), bytes.data(), std::min(bytes.size(), sizeof mark));
    const auto& [process, first, count] = mark;
    if (process != last && first <= 13 && 13 < first + count) {
      EXPECT_EQ(::kill(static_cast<pid_t>(process), sizes.empty() ? SIGKILL : SIGFPE), 0);
      last = process;
      sizes.push_back(count);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(sizes, ::testing::ElementsAre(16, 16, 8, 4, 2, 1));
  EXPECT_EQ(out("prediction.results-00000-of-00001"), wanted);
  EXPECT_THAT(out("prediction.errors_stats-00000-of-00001"),
              AllOf(HasSubstr("input line 14"), HasSubstr("was ended by SIGFPE")));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("they are tried again"), HasSubstr("it is left out")));
  EXPECT_THAT(out(".batch_predict/job.json"),
              AllOf(HasSubstr("\"name\": \"prediction.results-00000-of-00001\""),
                    HasSubstr(fmt::format("\"size_bytes\": {}", wanted.size())),
                    HasSubstr(fmt::format("\"crc32c\": \"{:08x}\"", crc32c(wanted)))));
}

class ModelRun : public Predict {
 protected:
  Outcome run(const std::vector<std::string>& more) {
    std::vector<std::string> all{"model", "run", "--dir", folder_ / "7"};
    all.insert(all.end(), more.begin(), more.end());
    return muster_run(all);
  }
};

TEST_F(ModelRun, PrintsAndSavesWhatNumpyWould) {
  const Outcome outcome =
      run({"--tag_set", "serve", "--signature_def", "serving_default", "--input_exprs",
           "x=[[1, -2.5], [3, 4]]", "--outdir", folder_ / "out"});
  EXPECT_EQ(outcome.out,
            "Result for output key x:\n[[ 1.  -2.5]\n [ 3.   4. ]]\nOutput x is saved to " +
                (folder_ / "out/x.npy").string() +
                "\nResult for output key y:\n[[1. 0.]\n [3. 4.]]\nOutput y is saved to " +
                (folder_ / "out/y.npy").string() + "\n")
      << outcome.err;
  const NpyArray y = read_npy(folder_ / "out/y.npy");
  EXPECT_EQ(y.type, NpyType::kFloat);
  EXPECT_EQ(y.data, std::string("\0\0\x80\x3F\0\0\0\0\0\0\x40\x40\0\0\x80\x40", 16));
  const std::vector<std::string> again{"--inputs", "x=" + (folder_ / "out/y.npy").string(),
                                       "--outdir", folder_ / "out"};
  EXPECT_THAT(run(again).err, HasSubstr("already exists. Add \"--overwrite\" to overwrite"));
  auto overwrite = again;
  overwrite.emplace_back("--overwrite");
  EXPECT_THAT(run(overwrite).out, HasSubstr("Result for output key y:\n[[1. 0.]\n [3. 4.]]"));
}

TEST_F(ModelRun, KeepsToItsLimits) {
  const Outcome outcome =
      run({"--input_exprs", "x=[[1, 2], [3, 4]]", "--max-calls", "0", "--max-live-bytes", "15"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("node y (Relu)"), HasSubstr("[2, 2]"),
                                 HasSubstr("15 may be held"), HasSubstr("--max-live-bytes")));
  EXPECT_EQ(run({"--input_exprs", "x=[[1, 2]]", "--max-seconds", "-1"}).status, 2);
}

TEST_F(ModelRun, TakesInputsOfEveryKind) {
  EXPECT_EQ(run({"--signature_def", "both", "--input_exprs",
                 "x=np.ones((2, 2));text=['a;b', b'\\xff']", "--outdir", folder_ / "out"})
                .status,
            0);
  EXPECT_THAT(npy_strings(read_npy(folder_ / "out/copy.npy")),
              ::testing::ElementsAre("a;b", "\xFF"));
  // Doubles become floats, strings of numpy's are strings.
  const std::string twos("\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\x40", 16);
  write_bytes(folder_ / "x.npy",
              encode_npy({.type = NpyType::kDouble, .shape = {1, 2}, .data = twos}));
  write_bytes(folder_ / "t.npy", encode_npy(npy_of_strings({1}, {"word"})));
  const Outcome both =
      run({"--signature_def", "both", "--inputs",
           "x=" + (folder_ / "x.npy").string() + ";text=" + (folder_ / "t.npy").string()});
  EXPECT_EQ(both.out,
            "Result for output key copy:\n[b'word']\nResult for output key x:\n[[2. 2.]]\n")
      << both.err;
  const Outcome example = run({"--signature_def", "bytes", "--input_examples",
                               "text=[{'age': [39], 'w': [\"P;\"], 'f': [1, .5]}]"});
  EXPECT_THAT(example.out, HasSubstr("age\\x12")) << example.err;
  EXPECT_THAT(example.out, HasSubstr("P;"));
}

TEST_F(ModelRun, ALaterKindOfInputWins) {
  const std::string twos("\0\0\0\x40\0\0\0\x40", 8);
  write_bytes(folder_ / "x.npy",
              encode_npy({.type = NpyType::kFloat, .shape = {1, 2}, .data = twos}));
  const Outcome outcome =
      run({"--input_exprs", "x=[[5, 6]]", "--inputs", "x=" + (folder_ / "x.npy").string()});
  EXPECT_THAT(outcome.out, HasSubstr("Result for output key y:\n[[5. 6.]]\n")) << outcome.err;
  EXPECT_THAT(run({"--input_exprs", "x=[[5, 6]];x=[[1, 2]]"}).err, HasSubstr("given twice"));
}

TEST_F(ModelRun, RunsASignatureWithoutInputs) {
  EXPECT_EQ(run({"--signature_def", "constant"}).out, "Result for output key three:\n[1. 2. 3.]\n");
}

TEST_F(ModelRun, TakesTheNewestOfNumberedExports) {
  const Outcome outcome =
      muster_run({"model", "run", "--dir", folder_.path(), "--signature_def", "constant"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST_F(ModelRun, FindsAGraphWithoutTags) {
  graph::SavedModel model = graph::read_saved_model(folder_ / "7");
  model.meta_graphs[0].tags.clear();
  graph::write_saved_model(folder_ / "8", model);
  const auto status = [&](std::vector<std::string> words, const Path& dir) {
    words.insert(words.end(), {dir, "--tag_set", ""});
    const Outcome outcome = muster_run(words);
    return outcome.status == 0 ? std::string() : outcome.err;
  };
  write_bytes(folder_ / "input", "[1, 2]\n");
  const Words commands[] = {{"model", "run", "--signature_def", "constant", "--dir"},
                            {"model", "show", "--dir"},
                            {"model", "scan", "--dir"},
                            {"predict", "--json-instances", folder_ / "input", "--model-dir"},
                            {"export", "graphdef", "--output", folder_ / "x.pb", "--saved-model"}};
  for (const Words& command : commands) {
    EXPECT_EQ(status(command, folder_ / "8"), "") << command[1];
    EXPECT_THAT(status(command, folder_ / "7"), HasSubstr("no graph has the tags ''"));
  }
}

TEST_F(ModelRun, SaysWhatIsWrong) {
  EXPECT_THAT(run({"--input_exprs", "z=1"}).err,
              HasSubstr("\"z\" is not a valid input key. Please choose from \"x\""));
  EXPECT_THAT(run({"--input_exprs", "x=[1,"}).err, HasSubstr("--input_exprs x: at character 4: "));
  EXPECT_THAT(run({"--input_exprs", "x=[1, 2]"}).err,
              HasSubstr("the input must be DT_FLOAT (-1, 2), but the value has the shape (2)"));
  EXPECT_THAT(run({"--input_exprs", "x"}).err,
              HasSubstr("--input_exprs \"x\" format is incorrect. Please follow "
                        "\"<input_key>=<python expression>\""));
  EXPECT_EQ(run({"--input_exprs", "x"}).status, 2);
  EXPECT_EQ(run({}).status, 2);
  EXPECT_THAT(run({}).err, HasSubstr("At least one of --inputs"));
  EXPECT_THAT(run({"--input_exprs", "x=[[1, 2]]", "--inputs", "x=/nowhere.npy"}).err,
              HasSubstr("/nowhere.npy"));
  EXPECT_THAT(run({"--signature_def", "text", "--input_examples", "text=[{'a': 1}]"}).err,
              HasSubstr("the feature a must be a list"));
  EXPECT_THAT(
      run({"--signature_def", "text", "--input_examples", "text=[{'a': [18446744073709551615]}]"})
          .err,
      HasSubstr("the feature a holds 18446744073709551615, which is no number of 64 bits"));
  EXPECT_THAT(run({"--signature_def", "nope", "--input_exprs", "x=1"}).err,
              HasSubstr("there is no signature 'nope'"));
  EXPECT_THAT(run({"--signature_def", "both", "--input_exprs", "x=[[1, 2]]"}).err,
              HasSubstr("needs the input text"));
}

TEST_F(ModelRun, RunsModelsOfTensorFlow) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto model = [&](const char* name, const char* inputs) {
    return muster_run(
        {"model", "run", "--dir", data / "tensorflow" / name, "--input_exprs", inputs});
  };
  EXPECT_EQ(model("half_plus_two/00000123", "x=[[1], [5]]").out,
            "Result for output key y:\n[[2.5]\n [4.5]]\n");
  const Outcome scalars = model("vars_and_arithmetic", "a=1;b=2.5");
  EXPECT_EQ(scalars.status, 0) << scalars.err;
  EXPECT_THAT(scalars.out, StartsWith("Result for output key output_0:\n"));
  EXPECT_THAT(model("static_hash_table", "word='foo'").out,
              StartsWith("Result for output key output_0:\n"));
}

// A model that TensorFlow wrote, taken apart into a graph and a checkpoint, and joined again.
TEST(ExportSavedModel, JoinsTheGraphOfAModelDirWithACheckpoint) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const Path source = data / "tensorflow/half_plus_two/00000123";
  const TempDir dir;
  std::filesystem::copy(source / "saved_model.pb", dir / "graph.pb");
  std::filesystem::copy(source / "assets", dir / "graph.assets");
  const Outcome none = muster_run({"export", "savedmodel", "--model-dir", dir.path()});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr(dir.path().string()));
  for (const auto& file : std::filesystem::directory_iterator(source / "variables")) {
    const std::string name = file.path().filename().string();
    std::filesystem::copy(file.path(), dir / ("model.ckpt-9" + name.substr(name.find('.'))));
  }
  write_bytes(dir / "checkpoint", "model_checkpoint_path: \"model.ckpt-9\"\n");
  const Outcome joined = muster_run({"export", "savedmodel", "--model-dir", dir.path()});
  ASSERT_EQ(joined.status, 0) << joined.err;
  const std::string exported = joined.out.substr(0, joined.out.find('\n'));
  EXPECT_EQ(Path(exported).parent_path(), dir / "export/savedmodel");
  EXPECT_TRUE(file_exists(Path(exported) / "assets/foo.txt"));
  const Outcome ran = muster_run({"model", "run", "--dir", exported, "--input_exprs", "x=[[1.0]]"});
  EXPECT_EQ(ran.out, "Result for output key y:\n[[2.5]]\n") << ran.err;
  const Outcome elsewhere =
      muster_run({"export", "savedmodel", "--model-dir", dir.path(), "--checkpoint",
                  dir / "model.ckpt-9", "--output", dir / "out"});
  EXPECT_THAT(elsewhere.out, StartsWith((dir / "out/").string())) << elsewhere.err;
  const std::vector<float> other{1};
  BundleWriter writer(dir / "other");
  writer.add({.name = "a", .bytes = std::as_bytes(std::span(other))});
  writer.finish();
  EXPECT_THAT(
      muster_run({"export", "savedmodel", "--model-dir", dir.path(), "--checkpoint", dir / "other"})
          .err,
      HasSubstr("is not one of this graph: b is missing; c is missing"));
}

}  // namespace
}  // namespace muster
