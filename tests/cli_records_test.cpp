// The `muster` program as a user runs it: flags, output, exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/data/records/record_index.h"
#include "muster/data/records/record_writer.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/terminal.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using ::testing::StartsWith;
using testing::TempDir;

Outcome run(const std::vector<std::string>& arguments) {
  return testing::run_program(MUSTER_PROGRAM, arguments);
}

std::string in(const TempDir& folder, const std::string& name) { return (folder / name).string(); }

// Every line of `text` as JSON.
std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    lines.push_back(nlohmann::json::parse(text.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

std::string write_three(const TempDir& folder) {
  std::string file = in(folder, "three.tfrecords");
  RecordWriter writer(file);
  for (const char* text : {"alpha", "beta", "gamma"}) writer.append(text);
  writer.close();
  return file;
}

TEST(Muster, HelpIsThereForEveryCommand) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{},
                                                  {"records"},
                                                  {"records", "write"},
                                                  {"records", "write", "cifar10"},
                                                  {"records", "write", "csv"},
                                                  {"records", "show"},
                                                  {"records", "verify"},
                                                  {"records", "index"},
                                                  {"records", "synth", "census"},
                                                  {"records", "bench"}}) {
    auto arguments = command;
    arguments.emplace_back("--help");
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Usage: muster"));
  }
}

TEST(Muster, MisuseExitsWithTwoAndNamesTheFlag) {
  EXPECT_EQ(run({}).status, 2);
  const Outcome unknown = run({"records", "show", "x", "--limt", "3"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(
      unknown.err,
      StartsWith("muster: unknown flag --limt of muster records show; did you mean --limit?\n"));
  const Outcome bad = run({"--log-level", "chatty", "records", "show", "x"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("chatty"));
}

TEST(Muster, NamesAnUnknownCommandAndTheNearest) {
  const auto error_of = [](const std::vector<std::string>& words) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 2);
    return outcome.err;
  };
  EXPECT_THAT(error_of({"recrods", "show"}),
              StartsWith("muster: unknown command recrods of muster; did you mean records?\n"));
  EXPECT_THAT(error_of({"records", "sho"}),
              StartsWith("muster: unknown command sho of muster records; did you mean show?\n"));
  EXPECT_THAT(error_of({"foo"}),
              StartsWith("muster: unknown command foo of muster; there are records, checkpoint, "));
  EXPECT_THAT(error_of({"foo"}), HasSubstr("Run with --help for more information."));
  EXPECT_THAT(error_of({"--verison"}),
              StartsWith("muster: unknown flag --verison of muster; did you mean --version?\n"));
  EXPECT_THAT(error_of({"records"}), StartsWith("muster: A subcommand is required\n"));
}

TEST(Muster, NamesNoEndlessNumbersForAWrongOne) {
  const Outcome outcome = run({"launch", "--grace", "abc", "--", "x"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, StartsWith("muster: --grace must be a number of 0 or more: abc\n"));
}

TEST(Muster, TellsItsVersionWithoutLibtorch) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              ::testing::MatchesRegex("muster [0-9]+\\.[0-9]+\\.[0-9]+(-[a-z0-9.]+)?\n"));
  EXPECT_EQ(run({"version"}).out, outcome.out);
}

TEST(Muster, VersionTellsLibtorchAndBlas) {
  const Outcome outcome = run({"version", "--all"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith(run({"--version"}).out));
  EXPECT_THAT(outcome.out, HasSubstr("libtorch"));
  EXPECT_THAT(outcome.out, HasSubstr(MUSTER_HAS_TORCH ? "BLAS: " : "not part of this build"));
}

// Without `muster` before it, which sets the variable for what it starts.
TEST(MusterTorch, LimitsHowLongThreadsSpinUnlessItIsTold) {
  const Path program = Path(MUSTER_PROGRAM).parent_path() / "muster-torch";
  if (!MUSTER_HAS_TORCH) GTEST_SKIP() << "there is no libtorch";
  if (MUSTER_SANITIZED) GTEST_SKIP() << "sanitizers are not ready so early";
  // Not warm, so that it loads libgomp itself.
  const auto version = [&](const std::vector<std::string>& environment) {
    return testing::run_program(program, {"version"}, environment).out;
  };
  const std::string limited = version({"OMP_NUM_THREADS=1"});
  EXPECT_THAT(limited, HasSubstr("threads: 1, waiting by GOMP_SPINCOUNT=1000\n"));
  EXPECT_THAT(version({"OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=active"}),
              HasSubstr("waiting by OMP_WAIT_POLICY=active\n"));
  EXPECT_THAT(version({"OMP_NUM_THREADS=1", "GOMP_SPINCOUNT=7"}),
              HasSubstr("waiting by GOMP_SPINCOUNT=7\n"));
}

TEST(MusterTorch, NoticesAnOpenBlasWithoutTheInstructionsOfTheProcessor) {
  const std::string processor = testing::read_bytes("/proc/cpuinfo");
  const Outcome outcome =
      testing::run_program(MUSTER_PROGRAM, {"version", "--all"}, {"OPENBLAS_CORETYPE=Prescott"});
  if (outcome.out.find("core Prescott") == std::string::npos ||
      processor.find(" avx2 ") == std::string::npos) {
    GTEST_SKIP() << "there is no OpenBLAS that was told wrong: " << outcome.out;
  }
  EXPECT_THAT(outcome.err, HasSubstr("warning: OpenBLAS computes with kernels for Prescott"));
}

// libtorch takes half a second to load: the program must not name it among the libraries it needs.
TEST(Muster, LinksNoLibtorch) {
  const std::string program = testing::read_bytes(MUSTER_PROGRAM);
  EXPECT_EQ(program.find("libtorch.so"), std::string::npos);
  EXPECT_EQ(program.find("libtorch_cpu.so"), std::string::npos);
  EXPECT_EQ(program.find("libc10.so"), std::string::npos);
}

TEST(RecordsShow, PrintsRecordsThatAreNoExamples) {
  const TempDir folder;
  const Outcome outcome = run({"records", "show", write_three(folder), "--limit", "2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(
      outcome.out,
      "record 0: 5 bytes, no Example\n  \"alpha\"\nrecord 1: 4 bytes, no Example\n  \"beta\"\n");
}

TEST(RecordsShow, MissingFileIsAFailureThatNamesIt) {
  const Outcome outcome = run({"records", "show", "/nowhere/x.tfrecords"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/nowhere/x.tfrecords"));
}

TEST(RecordsVerify, PassesGoodFilesAndTellsSizes) {
  const TempDir folder;
  const Outcome outcome = run({"records", "verify", write_three(folder)});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("three.tfrecords: OK, 3 records, 14 B of data, 4 to 5 bytes each"));
}

TEST(RecordsVerify, ReportsEveryErrorWithItsOffsetAndExitsWithOne) {
  const TempDir folder;
  const std::string file = write_three(folder);
  testing::flip_byte(file, 12);            // the data of record 0
  testing::flip_byte(file, 21 + 20 + 12);  // the data of record 2
  const Outcome outcome = run({"records", "verify", file, "--json"});
  EXPECT_EQ(outcome.status, 1);
  const auto lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_FALSE(lines[0]["ok"]);
  EXPECT_EQ(lines[0]["records"], 1);
  EXPECT_EQ(lines[0]["bad"], 2);
  EXPECT_THAT(lines[0]["errors"][0].get<std::string>(), HasSubstr("record 0"));
  EXPECT_THAT(lines[0]["errors"][1].get<std::string>(), HasSubstr("at byte 41"));
}

TEST(RecordsVerify, LooksAtAllFilesAlsoBehindADamagedOne) {
  const TempDir folder;
  testing::write_bytes(folder / "a.tfrecords", "this is no TFRecord file at all");
  const std::string good = write_three(folder);
  const Outcome outcome = run({"records", "verify", in(folder, "*.tfrecords")});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("a.tfrecords: DAMAGED"));
  EXPECT_THAT(outcome.out, HasSubstr("three.tfrecords: OK"));
}

TEST(RecordsIndex, WritesAnIndexOnceAndSaysWhenItIsUpToDate) {
  const TempDir folder;
  const std::string file = write_three(folder);
  EXPECT_THAT(run({"records", "index", file}).out, HasSubstr("three.tfrecords.index: 3 records\n"));
  EXPECT_EQ(RecordIndex::load(file).count(), 3U);
  EXPECT_THAT(run({"records", "index", file}).out, HasSubstr("was up to date"));
}

TEST(RecordsBench, PrintsRatesBesideMemcpy) {
  const TempDir folder;
  const Outcome outcome = run({"records", "bench", write_three(folder), "--repetitions", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("of memcpy"));
}

TEST(RecordsSynth, CensusPrintsItsBestAucAndIsReproducible) {
  const TempDir folder;
  const std::vector<std::string> flags{"--train", "500", "--test", "100", "--seed", "7"};
  auto command = [&](const std::string& name) {
    std::vector<std::string> words{"records", "synth", "census", "--output", in(folder, name)};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(words);
  };
  const Outcome first = command("a");
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("adult.data.csv: 500 rows, best possible AUC 0."));
  command("b");
  EXPECT_EQ(testing::read_bytes(folder / "a/adult.data.csv"),
            testing::read_bytes(folder / "b/adult.data.csv"));
  EXPECT_NE(testing::read_bytes(folder / "a/adult.data.csv").substr(0, 500),
            testing::read_bytes(folder / "a/adult.test.csv").substr(0, 500));
}

TEST(RecordsWrite, SyntheticMnistGoesThroughIdxToRecordsAndBack) {
  const TempDir folder;
  ASSERT_EQ(run({"records", "synth", "mnist", "--output", in(folder, "d"), "--train", "100",
                 "--test", "20"})
                .status,
            0);
  const Outcome written =
      run({"records", "write", "mnist", "--input", in(folder, "d"), "--output", in(folder, "r")});
  EXPECT_EQ(written.status, 0) << written.err;
  EXPECT_EQ(RecordIndex::load(folder / "r/train.tfrecords").count(), 80U);
  EXPECT_EQ(RecordIndex::load(folder / "r/validation.tfrecords").count(), 20U);
  EXPECT_EQ(RecordIndex::load(folder / "r/eval.tfrecords").count(), 20U);
  const auto shown = json_lines(
      run({"records", "show", in(folder, "r/eval.tfrecords"), "--limit", "1", "--json"}).out);
  const auto& features = shown.at(0)["features"];
  EXPECT_EQ(features["image"]["kind"], "float");
  EXPECT_EQ(features["image"]["values"].size(), 784U);
  EXPECT_LE(features["image"]["values"][300].get<double>(), 1.0);
  EXPECT_EQ(features["label"]["values"].size(), 1U);
}

TEST(RecordsWrite, MissingBatchIsNamedBeforeAnythingIsWritten) {
  const TempDir folder;
  const Outcome outcome = run({"records", "write", "cifar10", "--input", folder.path().string(),
                               "--output", in(folder, "r")});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("data_batch_1"));
  EXPECT_FALSE(std::filesystem::exists(folder / "r"));
}

TEST(RecordsWrite, CsvBecomesTypedFeaturesAndASeededSplit) {
  const TempDir folder;
  std::string text = "id,score,name,p0,p1\n";
  for (int i = 0; i < 10; ++i)
    text += std::to_string(i) + ",0.5,\"n, " + std::to_string(i) + "\",255,0\n";
  testing::write_bytes(folder / "t.csv", text);
  const std::vector<std::string> words{
      "records", "write",        "csv",     "--input", in(folder, "t.csv"), "--header",
      "--pack",  "image=p0..p1", "--scale", "255",     "--output",          in(folder, "r")};
  const Outcome outcome = run(words);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto train = json_lines(
      run({"records", "show", in(folder, "r/train.tfrecords"), "--limit", "99", "--json"}).out);
  const auto validation = json_lines(
      run({"records", "show", in(folder, "r/validation.tfrecords"), "--limit", "99", "--json"})
          .out);
  EXPECT_EQ(train.size(), 8U);
  EXPECT_EQ(validation.size(), 2U);
  std::vector<int> ids;
  for (const auto* part : {&train, &validation}) {
    for (const auto& line : *part) {
      const auto& features = line["features"];
      const int id = features["id"]["values"][0];
      ids.push_back(id);
      EXPECT_EQ(features["score"]["kind"], "float");
      EXPECT_EQ(features["name"]["values"][0], "n, " + std::to_string(id));
      EXPECT_EQ(features["image"]["values"], (std::vector<double>{1.0, 0.0}));
    }
  }
  EXPECT_THAT(ids, ::testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(ids, Not(::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)));
}

TEST(RecordsWrite, AHeaderThatIsTakenForARowIsWarnedOf) {
  const TempDir folder;
  const auto err_of = [&](const std::string& text, const std::string& flag) {
    testing::write_bytes(folder / "t.csv", text);
    std::vector<std::string> words{"records",           "write",    "csv",          "--input",
                                   in(folder, "t.csv"), "--output", in(folder, "r")};
    if (!flag.empty()) words.push_back(flag);
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(err_of("name,age\nAnn,39\nBob,7\n", ""),
              AllOf(HasSubstr("t.csv line 1"), HasSubstr("'age'"), HasSubstr("--header")));
  for (const char* sound : {"name,age\nAnn,39\n", "\xEF\xBB\xBFname,age\nAnn,39\n"}) {
    EXPECT_EQ(err_of(sound, "--header"), "");
  }
  for (const char* sound : {"Ann,39\nBob,7\n", "name,age\n", "a,b\nc,d\n",
                            "\xEF\xBB\xBF"
                            "1,2\n3,4\n"}) {
    EXPECT_EQ(err_of(sound, ""), "") << sound;
  }
}

TEST(RecordsWrite, RowsBeyondTheMemoryTheyMayTakeAreRefused) {
  const TempDir folder;
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += "1\n";
  testing::write_bytes(folder / "t.csv", text);
  const Outcome outcome = run({"records", "write", "csv", "--input", in(folder, "t.csv"),
                               "--output", in(folder, "r"), "--memory-mib", "1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("--memory-mib"));
}

TEST(RecordsWrite, TheProgressLineIsClearedBeforeTheResult) {
  const TempDir folder;
  testing::write_bytes(folder / "t.csv", "1\n2\n3\n4\n5\n");
  const std::string out = testing::run_on_terminal(
      MUSTER_PROGRAM,
      {"records", "write", "csv", "--input", in(folder, "t.csv"), "--output", in(folder, "r")});
  EXPECT_THAT(out, AllOf(HasSubstr("records/s\r\x1b[K  4 records"), HasSubstr("Done!")));
}

TEST(RecordsShow, SpellsOutWhatWouldActOnTheTerminal) {
  const TempDir folder;
  const Outcome outcome = run({"records", "show", in(folder, "no\x1b[2Jthing")});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no\\x1b[2Jthing"), Not(HasSubstr("\x1b"))));
}

TEST(RecordsWrite, ARaggedCsvIsAnErrorWithFileAndLine) {
  const TempDir folder;
  testing::write_bytes(folder / "t.csv", "1,2\n3\n");
  const Outcome outcome =
      run({"records", "write", "csv", "--input", in(folder, "t.csv"), "--output", in(folder, "r")});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("t.csv line 2"));
}

TEST(RecordsWrite, NpyArraysBecomeFeaturesOfTheirType) {
  const TempDir folder;
  const auto npy = [&](const std::string& name, const std::string& type, const std::string& shape,
                       const std::string& data) {
    std::string header =
        "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(118 - 1, ' ');
    header += '\n';
    testing::write_bytes(folder / name,
                         std::string("\x93NUMPY\x01\x00", 8) + '\x76' + '\x00' + header + data);
  };
  npy("x.npy", "|u1", "(3, 2)", std::string("\x01\x02\x03\x04\x05\x06", 6));
  npy("y.npy", "<i4", "(3,)", std::string("\x07\0\0\0\x08\0\0\0\x09\0\0\0", 12));
  npy("short.npy", "<i4", "(2,)", std::string("\x07\0\0\0\x08\0\0\0", 8));
  const Outcome outcome =
      run({"records", "write", "npy", "--input", "x=" + in(folder, "x.npy"),
           "y=" + in(folder, "y.npy"), "--validation-fraction", "0", "--output", in(folder, "r")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const auto& line :
       json_lines(run({"records", "show", in(folder, "r/train.tfrecords"), "--json"}).out)) {
    const int y = line["features"]["y"]["values"][0];
    const int first = 2 * (y - 7) + 1;
    EXPECT_EQ(line["features"]["x"]["values"], (std::vector<int>{first, first + 1}));
  }
  const Outcome ragged = run({"records", "write", "npy", "--input", "x=" + in(folder, "x.npy"),
                              "y=" + in(folder, "short.npy"), "--output", in(folder, "r2")});
  EXPECT_EQ(ragged.status, 1);
  EXPECT_THAT(ragged.err, HasSubstr("the feature y has 2 rows, but x has 3"));
}

TEST(RealData, PicklesAndBinariesOfCifar10GiveTheSameRecords) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const TempDir folder;
  const auto subset = data / "cifar-10" / "subset";
  for (const std::string kind : {"bin", "py"}) {
    const Outcome outcome =
        run({"records", "write", "cifar10", "--input",
             (subset / ("cifar-10-batches-" + kind)).string(), "--output", in(folder, kind)});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  for (const std::string file : {"train.tfrecords", "validation.tfrecords", "eval.tfrecords"}) {
    EXPECT_EQ(testing::read_bytes(folder / ("bin/" + file)),
              testing::read_bytes(folder / ("py/" + file)));
  }
  EXPECT_EQ(RecordIndex::load(folder / "py/train.tfrecords").count(), 400U);
}

TEST(RealData, ARecordFileOfTensorFlowVerifies) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const Outcome outcome =
      run({"records", "verify", (data / "tensorflow" / "wire_vocabulary.tfrecord.gz").string()});
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("compression GZIP"));
}

TEST(RecordsWriteImages, WritesFoldersOfPicturesAsTheyAreOrSmaller) {
  const TempDir folder;
  ASSERT_EQ(run({"records", "synth", "pictures", "--output", in(folder, "made"), "--train", "12",
                 "--test", "12"})
                .status,
            0);
  const std::string train = in(folder, "made/train");
  const Outcome outcome = run({"records", "write", "images", "--input", train, "--output",
                               in(folder, "records"), "--validation-fraction", "0.25"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("  9 records"), HasSubstr("  3 records"),
                                 HasSubstr("classes are named in")));
  EXPECT_THAT(testing::read_bytes(folder / "records/classes.txt"), HasSubstr("class0\nclass2\n"));
  EXPECT_TRUE(std::filesystem::exists(folder / "records/train.tfrecords.index"));

  const Outcome smaller =
      run({"records", "write", "images", "--input", train, "--output", in(folder, "small"),
           "--validation-fraction", "0", "--shorter-side", "24"});
  ASSERT_EQ(smaller.status, 0) << smaller.err;
  EXPECT_LT(std::filesystem::file_size(folder / "small/train.tfrecords"),
            std::filesystem::file_size(folder / "records/train.tfrecords"));

  // A damaged picture ends it, and leaves no file of its part.
  std::string torn;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(train)) {
    if (entry.is_regular_file()) torn = entry.path().string();
  }
  testing::write_bytes(torn, testing::read_bytes(torn).substr(0, 700));
  const Outcome damaged = run({"records", "write", "images", "--input", train, "--output",
                               in(folder, "damaged"), "--validation-fraction", "0"});
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.err, HasSubstr(torn + ": the JPEG is damaged near offset 700 of 700"));
  EXPECT_FALSE(std::filesystem::exists(folder / "damaged/train.tfrecords"));
}

TEST(RecordsWriteImages, ReadsCsvFilesAndNamesTheLine) {
  const TempDir folder;
  ASSERT_EQ(run({"records", "synth", "pictures", "--output", in(folder, "made"), "--train", "1",
                 "--test", "1"})
                .status,
            0);
  std::string made;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "made/train")) {
    if (entry.is_regular_file()) made = entry.path().string();
  }
  testing::write_bytes(folder / "list.csv", "path,kind\n" + made + ",tulip\n");
  const std::vector<std::string> command = {
      "records",  "write",           "images",        "--input", in(folder, "list.csv"),
      "--output", in(folder, "out"), "--file-column", "path",    "--label-column",
      "kind"};
  const Outcome outcome = run(command);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(testing::read_bytes(folder / "out/classes.txt"), "tulip\n");
  testing::write_bytes(folder / "list.csv", "path,kind\n" + made + "\n");
  EXPECT_THAT(run(command).err, HasSubstr("list.csv line 2: 1 fields, but the header has 2"));
}

std::string write_people(const TempDir& folder) {
  std::string file = in(folder, "people.jsonl");
  std::ofstream(file) << "{\"age\": 39, \"label\": 0}\n{\"age\": null, \"label\": 1}\n";
  return file;
}

TEST(RecordsShow, PrintsRowsOfTables) {
  const TempDir folder;
  const Outcome shown = run({"records", "show", "--skip", "1", write_people(folder)});
  EXPECT_EQ(shown.status, 0);
  EXPECT_EQ(shown.out, "row 1\n  age (int64): missing\n  label (int64): 1\n");
  const auto lines = json_lines(run({"records", "show", "--json", write_people(folder)}).out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["columns"]["age"], 39);
}

TEST(RecordsAnalyze, PrintsColumnsAndComparesFiles) {
  const TempDir folder;
  const std::string file = write_people(folder);
  const Outcome shown = run({"records", "analyze", file, "--compare", file});
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.out, AllOf(StartsWith("2 rows\nage (int64): 2 values, 50.0 % missing\n"),
                               HasSubstr("label (int64): 2 values, 0.0 % missing; the label"),
                               HasSubstr("2 different rows are also in the training data")));
}

}  // namespace
}  // namespace muster
