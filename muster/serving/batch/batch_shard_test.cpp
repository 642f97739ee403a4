#include "muster/serving/batch/batch_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/record_writer.h"
#include "muster/serving/batch/batch_deaths.h"
#include "muster/serving/batch/batch_job.h"
#include "muster/testing/temp_dir.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::read_bytes;
using testing::TempDir;
using testing::write_bytes;

graph::SignatureDef doubling() {
  graph::SignatureDef signature;
  signature.inputs["x"] = {.name = "x:0", .dtype = DataType::kFloat, .shape = {-1}};
  signature.outputs["y"] = {.name = "y:0", .dtype = DataType::kFloat, .shape = {-1}};
  return signature;
}

// Fails, all of a batch, for a negative number.
Tensors twice(const Tensors& inputs) {
  std::vector<float> values = inputs.at("x").values<float>();
  for (float& value : values) {
    if (value < 0) throw InvalidArgument("{} is negative", value);
    value *= 2;
  }
  return {{"y", TensorValue::vector(values)}};
}

graph::SignatureDef with_strings() {
  graph::SignatureDef signature;
  signature.inputs["rows"] = {.name = "rows:0", .dtype = DataType::kString, .shape = {-1}};
  signature.outputs["rows"] = {.name = "out:0", .dtype = DataType::kString, .shape = {-1}};
  return signature;
}

struct Files {
  std::string results{};
  std::string errors{};
};

class BatchShard : public ::testing::Test {
 protected:
  BatchJob open(const std::string& name, const graph::SignatureDef& signature) {
    job_.files = input_files_of({(folder_ / "in*").string()});
    return open_batch_job(folder_ / name, job_, signature);
  }

  static void run(const Path& output, const BatchJob& job, const graph::SignatureDef& signature,
                  const AnswerBatch& answer, const ShardOptions& options = {}) {
    BatchShards shards(output, job, signature, answer);
    for (std::uint64_t shard = 0; shard < job.shards; ++shard) shards.run(shard, options);
    shards.finish();
  }

  Files files_of(const Path& output, const BatchJob& job) {
    Files files;
    for (std::uint64_t shard = 0; shard < job.shards; ++shard) {
      files.results += read_bytes(batch_results_path(output, job, shard));
      files.errors += read_bytes(batch_errors_path(output, job, shard));
    }
    return files;
  }

  Files predict(const graph::SignatureDef& signature, const AnswerBatch& answer) {
    const BatchJob job = open("out", signature);
    run(folder_ / "out", job, signature, answer);
    return files_of(folder_ / "out", job);
  }

  TempDir folder_;
  BatchJob job_{.batch_size = 4};
};

TEST_F(BatchShard, PredictsInOrderAndNamesWhatIsWrong) {
  write_bytes(folder_ / "in1.json", "1\n{\"x\": 2}\n-3\n\n4\n\"a\"\n5.5\n[1\n2]\n3,4\n");
  write_bytes(folder_ / "in2.json", "6");
  const Files files = predict(doubling(), twice);
  EXPECT_EQ(files.results,
            "{\"y\": 2.0}\n{\"y\": 4.0}\n{\"y\": 8.0}\n{\"y\": 11.0}\n{\"y\": 12.0}\n");
  const auto errors = lines_of(files.errors);
  ASSERT_EQ(errors.size(), 6u);
  EXPECT_THAT(errors[0], HasSubstr("in1.json line 3\", \"error\": \"Failed to run the provided "
                                   "model: -3 is negative (Error code: 2)\"}"));
  EXPECT_THAT(errors[1], HasSubstr("line 4\", \"error\": \"Invalid inputs: Empty line"));
  EXPECT_THAT(errors[2], HasSubstr("line 6\", \"error\": \"Invalid inputs: "));
  EXPECT_THAT(errors[3], HasSubstr("line 8\", \"error\": \"Invalid inputs: "));
  EXPECT_THAT(errors[5], HasSubstr("line 10\", \"error\": \"Invalid inputs: "));
}

TEST_F(BatchShard, LinesThatTogetherAreAListAreEachWrong) {
  // Joined, these are three instances.
  write_bytes(folder_ / "in.json", "[1\n2]\n3,[4]\n");
  auto signature = doubling();
  signature.inputs["x"].shape = {-1, -1};
  EXPECT_EQ(predict(signature, twice).results, "");
}

TEST_F(BatchShard, ShardsCoverAllInstancesOnce) {
  std::string text;
  for (int i = 0; i < 101; ++i) text += std::to_string(i) + "\n";
  write_bytes(folder_ / "in.json", text);
  job_.shards = 7;
  const BatchJob job = open("out", doubling());
  ASSERT_EQ(job.shards, 7u);
  run(folder_ / "out", job, doubling(), twice);
  std::string wanted;
  for (int i = 0; i < 101; ++i) wanted += "{\"y\": " + std::to_string(2 * i) + ".0}\n";
  EXPECT_EQ(files_of(folder_ / "out", job).results, wanted);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/prediction.results-00006-of-00007"));
}

TEST_F(BatchShard, ShardsAreTheSameInAnyOrder) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += std::to_string(i) + "\n";
  write_bytes(folder_ / "in1.json", text);
  write_bytes(folder_ / "in2.json", "-1\n" + text);
  job_.shards = 5;
  const auto signature = doubling();
  const Files wanted = predict(signature, twice);
  const BatchJob job = open("other", signature);
  BatchShards shards(folder_ / "other", job, signature, twice);
  for (const std::uint64_t shard : {3, 1, 4, 0, 2}) shards.run(shard);
  shards.finish();
  const Files files = files_of(folder_ / "other", job);
  EXPECT_EQ(files.results, wanted.results);
  EXPECT_EQ(files.errors, wanted.errors);
  EXPECT_EQ(lines_of(files.results).size(), 100u);
}

TEST_F(BatchShard, ShardsBeginAtMarksThatTheJobKeeps) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i) + "\n";
  write_bytes(folder_ / "in.json", text);
  job_.batch_size = 64;
  job_.shards = 3;
  const auto signature = doubling();
  BatchJob job = open("marked", signature);
  EXPECT_EQ(job.files[0].marks.every, 1024u);
  EXPECT_EQ(job.files[0].marks.offsets.size(), 5u);
  EXPECT_EQ(read_batch_job(folder_ / "marked").files, job.files);
  {
    BatchShards shards(folder_ / "marked", job, signature, twice);
    for (const std::uint64_t shard : {1, 0, 2}) shards.run(shard);
    shards.finish();
  }
  const std::string wanted = files_of(folder_ / "marked", job).results;
  EXPECT_EQ(lines_of(wanted).size(), 5000u);
  EXPECT_THAT(wanted, HasSubstr("\n{\"y\": 9998.0}\n"));

  // One that was begun before there were marks.
  job = open("unmarked", signature);
  job.files[0].marks = {};
  run(folder_ / "unmarked", job, signature, twice);
  EXPECT_EQ(files_of(folder_ / "unmarked", job).results, wanted);

  job = open("damaged", signature);
  ++job.files[0].marks.offsets[1];
  BatchShards shards(folder_ / "damaged", job, signature, twice);
  EXPECT_THROW(shards.run(1), DataLoss);
}

TEST_F(BatchShard, AJobKeepsFewMarksOfAnyFile) {
  constexpr std::uint64_t kLines = 1'100'000;
  std::string text;
  for (std::uint64_t i = 0; i < kLines; ++i) text += "1\n";
  write_bytes(folder_ / "in.json", text);
  const LineMarks marks = open("out", doubling()).files[0].marks;
  EXPECT_EQ(marks.every, 2048u);
  ASSERT_EQ(marks.offsets.size(), kLines / 2048 + 1);
  for (std::uint64_t i = 0; i < marks.offsets.size(); ++i) {
    const std::uint64_t offset = 4096 * i;
    ASSERT_EQ(marks.offsets[i], offset);
  }
}

TEST_F(BatchShard, NoLineIsLostOrDoubledByAKillAfterAnyBatch) {
  std::string text;
  for (int i = 0; i < 37; ++i) text += (i % 5 == 3 ? "-" : "") + std::to_string(i) + "\n";
  write_bytes(folder_ / "in.json", text);
  job_.shards = 2;
  const Files wanted = predict(doubling(), twice);
  for (int batches = 1; batches < 6; ++batches) {
    const Path output = folder_ / ("killed" + std::to_string(batches));
    const BatchJob job = open(output.filename().string(), doubling());
    for (int life = 0; life < 20 && !is_published(output, job, 1); ++life) {
      int left = batches;
      const ShardOptions options{.on_batch =
                                     [&](const ShardState&) {
                                       if (--left < 0) throw std::runtime_error("killed");
                                       return true;
                                     },
                                 // Every save but the last one is lost in each second life.
                                 .save_every = std::chrono::hours(life % 2)};
      try {
        run(output, job, doubling(), twice, options);
      } catch (const std::runtime_error&) {
        // Bytes after the last save, as a killed process leaves them.
        for (const char* name : {"shard-00000.results", "shard-00000.errors"}) {
          const Path part = batch_folder(output) / name;
          if (std::filesystem::exists(part)) write_bytes(part, read_bytes(part) + "{\"half\": ");
        }
      }
    }
    const Files files = files_of(output, job);
    EXPECT_EQ(files.results, wanted.results) << batches;
    EXPECT_EQ(files.errors, wanted.errors) << batches;
  }
}

TEST_F(BatchShard, StopsWhereItIsAskedToAndGoesOnThere) {
  write_bytes(folder_ / "in.json", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  const BatchJob job = open("out", doubling());
  std::vector<std::size_t> sizes;
  const auto signature = doubling();
  BatchShards shards(folder_ / "out", job, signature, [&](const Tensors& inputs) {
    sizes.push_back(inputs.at("x").values<float>().size());
    return twice(inputs);
  });
  const ShardOptions one_batch{.on_batch = [](const ShardState&) { return false; }};
  EXPECT_EQ(shards.run(0, one_batch), ShardOutcome::kStopped);
  EXPECT_EQ(read_shard_state(folder_ / "out", 0)->records, 4u);
  EXPECT_EQ(shards.run(0), ShardOutcome::kPublished);
  EXPECT_THAT(sizes, ElementsAre(4u, 4u, 1u));
}

TEST_F(BatchShard, FinishThrowsWhatTheLastSaveFailedWith) {
  write_bytes(folder_ / "in.json", "1\n");
  const BatchJob job = open("out", doubling());
  // A folder in its place: the results cannot get their name.
  const Path results = batch_results_path(folder_ / "out", job, 0);
  std::filesystem::create_directories(results / "taken");
  const auto signature = doubling();
  BatchShards shards(folder_ / "out", job, signature, twice);
  shards.run(0);
  try {
    shards.finish();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(results.filename().string()));
  }
  std::filesystem::remove_all(results);
  EXPECT_EQ(shards.run(0), ShardOutcome::kPublished);
  EXPECT_EQ(read_bytes(results), "{\"y\": 2.0}\n");
}

TEST_F(BatchShard, PublishesWhatWasCompleteWhenTheProcessWasKilled) {
  write_bytes(folder_ / "in.json", "1\n");
  const BatchJob job = open("out", doubling());
  const Path output = folder_ / "out";
  run(output, job, doubling(), twice);
  const Path results = batch_results_path(output, job, 0);
  std::filesystem::rename(results, batch_folder(output) / "shard-00000.results");
  EXPECT_FALSE(is_published(output, job, 0));
  run(output, job, doubling(), [](const Tensors&) -> Tensors { throw Internal("asked again"); });
  EXPECT_EQ(read_bytes(results), "{\"y\": 2.0}\n");
}

TEST_F(BatchShard, AFlippedByteOfWhatWasSavedIsComputedAgain) {
  write_bytes(folder_ / "in.json", "1\n-2\n3\n4\n5\n-6\n7\n8\n9\n");
  const Files wanted = predict(doubling(), twice);
  const auto flip = [](const Path& path) {
    std::string bytes = read_bytes(path);
    bytes.at(bytes.size() / 2) ^= 1;
    write_bytes(path, bytes);
  };
  const auto signature = doubling();
  for (const char* suffix : {"results", "errors"}) {
    const Path output = folder_ / suffix;
    const BatchJob job = open(suffix, signature);
    const ShardOptions one_batch{.on_batch = [](const ShardState&) { return false; }};
    BatchShards(output, job, signature, twice).run(0, one_batch);
    flip(batch_shard_path(output, 0, suffix));
    run(output, job, signature, twice);
    EXPECT_EQ(files_of(output, job).results, wanted.results) << suffix;
    EXPECT_EQ(files_of(output, job).errors, wanted.errors) << suffix;
    // Published ones, too.
    flip(std::string(suffix) == "results" ? batch_results_path(output, job, 0)
                                          : batch_errors_path(output, job, 0));
    check_published_shards(output, job);
    EXPECT_FALSE(is_published(output, job, 0));
    run(output, job, signature, twice);
    check_published_shards(output, job);
    EXPECT_TRUE(is_published(output, job, 0));
    EXPECT_EQ(files_of(output, job).results, wanted.results) << suffix;
    EXPECT_EQ(files_of(output, job).errors, wanted.errors) << suffix;
  }
  // A complete file that was not renamed before the process was killed.
  const Path output = folder_ / "out";
  const BatchJob job = open("out", signature);
  const Path unpublished = batch_shard_path(output, 0, "results");
  std::filesystem::rename(batch_results_path(output, job, 0), unpublished);
  flip(unpublished);
  run(output, job, signature, twice);
  EXPECT_EQ(files_of(output, job).results, wanted.results);
}

TEST_F(BatchShard, AStateWithAFlippedDigitIsRefused) {
  write_bytes(folder_ / "in.json", "1\n2\n3\n4\n5\n");
  const auto signature = doubling();
  const BatchJob job = open("out", signature);
  BatchShards(folder_ / "out", job, signature, twice).run(0, {.on_batch = [](const ShardState&) {
                                                            return false;
                                                          }});
  const Path state = batch_shard_path(folder_ / "out", 0, "json");
  std::string text = read_bytes(state);
  text.replace(text.find("\"records\": 4"), 12, "\"records\": 5");
  write_bytes(state, text);
  EXPECT_THROW(read_shard_state(folder_ / "out", 0), DataLoss);
}

TEST_F(BatchShard, InstancesThatEndTheirProcessAreHalvedUntilOneIsLeft) {
  write_bytes(folder_ / "in.json", "1\n2\n3\n4\n5\n6\n");
  const auto signature = doubling();
  const BatchJob job = open("out", signature);
  const Path output = folder_ / "out";
  // A process that the number 3 ends with this signal, and the group that it died of.
  const auto death_by = [&](int signal) -> std::optional<GroupDeaths> {
    const pid_t process = ::fork();
    if (process == 0) {
      // A sanitizer's handler would exit instead of the signal.
      ::signal(signal, SIG_DFL);
      run(output, job, signature, [&](const Tensors& inputs) {
        if (std::ranges::count(inputs.at("x").values<float>(), 3.0F) > 0)
          ::kill(::getpid(), signal);
        return twice(inputs);
      });
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(process, &status, 0), process);
    if (WIFEXITED(status)) return std::nullopt;
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_EQ(add_death(output, job, process + 1, signal), std::nullopt);
    return add_death(output, job, process, signal);
  };
  const auto group = [](std::uint64_t first, std::uint64_t count) {
    return InstanceGroup{.first = first, .count = count};
  };
  // A signal that anybody may have sent has to come three times.
  EXPECT_FALSE(death_by(SIGKILL)->is_deadly);
  EXPECT_FALSE(death_by(SIGKILL)->is_deadly);
  const auto whole = death_by(SIGKILL);
  ASSERT_TRUE(whole && whole->is_deadly);
  EXPECT_EQ(whole->group, group(0, 4));
  EXPECT_EQ(death_by(SIGSEGV)->group, group(2, 2));
  EXPECT_EQ(death_by(SIGSEGV)->group, group(2, 1));
  EXPECT_EQ(death_by(SIGSEGV), std::nullopt);
  EXPECT_EQ(files_of(output, job).results,
            "{\"y\": 2.0}\n{\"y\": 4.0}\n{\"y\": 8.0}\n{\"y\": 10.0}\n{\"y\": 12.0}\n");
  EXPECT_THAT(files_of(output, job).errors,
              AllOf(HasSubstr("in.json line 3"), HasSubstr("was ended by SIGSEGV")));
}

TEST_F(BatchShard, KeysOfInstancesComeWithTheirPredictions) {
  job_.key_field = "id";
  write_bytes(folder_ / "in.json",
              "{\"id\": 7, \"x\": 1}\n{\"x\": 2, \"id\": \"b\"}\n{\"x\": 3}\n");
  const Files files = predict(doubling(), twice);
  EXPECT_EQ(files.results, "{\"id\": 7, \"y\": 2.0}\n{\"id\": \"b\", \"y\": 4.0}\n");
  EXPECT_THAT(files.errors, HasSubstr("the instance has no field id"));
}

TEST_F(BatchShard, ColumnsOfCsvAreInputs) {
  job_.input = BatchInput::kCsv;
  job_.output = BatchOutput::kCsv;
  job_.key_field = "id";
  write_bytes(folder_ / "in.csv", "x,id\n1.5,\"a,\"\"b\"\n2,c\noops,d\n");
  const Files files = predict(doubling(), twice);
  EXPECT_EQ(files.results, "id,y\n\"a,\"\"b\",3.0\nc,4.0\n");
  EXPECT_THAT(files.errors, HasSubstr("in.csv line 4"));
}

TEST_F(BatchShard, ColumnsAndFieldsThatCsvLacksAreThoseOfTraining) {
  job_.input = BatchInput::kCsv;
  graph::SignatureDef signature = doubling();
  signature.inputs["z"] = signature.inputs["x"];
  signature.defaults["x"] = TensorValue::vector<float>({7});
  signature.defaults["z"] = TensorValue::vector<float>({1});
  signature.inputs["id"] = {.name = "id:0", .dtype = DataType::kInt64, .shape = {-1}};
  write_bytes(folder_ / "in.csv", "x,id\n1.5,1\n,2\n3,3\n");
  std::vector<std::vector<float>> batches;
  const Files files = predict(signature, [&](const Tensors& inputs) {
    batches.push_back(inputs.at("z").values<float>());
    return twice(inputs);
  });
  EXPECT_EQ(files.results, "{\"y\": 3.0}\n{\"y\": 14.0}\n{\"y\": 6.0}\n");
  EXPECT_THAT(batches, ElementsAre(ElementsAre(1, 1, 1)));
}

TEST_F(BatchShard, ColumnsThatTheSignatureDoesNotHaveAreRefusedBeforeTheJob) {
  job_.input = BatchInput::kCsv;
  write_bytes(folder_ / "in.csv", "x,z\n1,2\n");
  EXPECT_THROW(
      {
        try {
          open("out", doubling());
        } catch (const InvalidArgument& error) {
          EXPECT_THAT(error.what(), HasSubstr("in.csv: column 'z' is no input"));
          throw;
        }
      },
      InvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(BatchShard, RowsOfCsvAreStringsWhereTheSignatureTakesOne) {
  job_.input = BatchInput::kCsv;
  write_bytes(folder_ / "in.csv", "1,\"a\nb\"\n2,c\n");
  const Files files = predict(with_strings(), [](const Tensors& inputs) { return inputs; });
  EXPECT_EQ(files.results, "{\"rows\": \"1,\\\"a\\nb\\\"\"}\n{\"rows\": \"2,c\"}\n");
}

TEST_F(BatchShard, DamagedRecordsAreNamedAndTheOthersAnswered) {
  job_.input = BatchInput::kTFRecord;
  {
    RecordWriter writer(folder_ / "in.tfrecords");
    for (const char* text : {"alpha", "beta", "gamma"}) writer.append(text);
    writer.close();
  }
  std::string bytes = read_bytes(folder_ / "in.tfrecords");
  bytes[12 + 5 + 4 + 12] ^= 1;  // The first byte of "beta".
  write_bytes(folder_ / "in.tfrecords", bytes.substr(0, bytes.size() - 2));
  const Files files = predict(with_strings(), [](const Tensors& inputs) { return inputs; });
  EXPECT_EQ(files.results, "{\"rows\": \"alpha\"}\n");
  EXPECT_EQ(lines_of(files.errors).size(), 2u) << files.errors;
}

TEST_F(BatchShard, AFeatureOfAnExampleIsItsKey) {
  job_.input = BatchInput::kTFRecord;
  job_.key_field = "id";
  {
    RecordWriter writer(folder_ / "in.tfrecords");
    ExampleBuilder builder;
    builder.add_int("id", 17);
    writer.append(builder.serialize());
    writer.close();
  }
  auto signature = with_strings();
  signature.outputs.clear();
  signature.outputs["size"] = {.name = "n:0", .dtype = DataType::kInt64, .shape = {-1}};
  const auto sizes = [](const Tensors& inputs) -> Tensors {
    const auto size = static_cast<std::int64_t>(inputs.at("rows").strings.size());
    return {{"size", TensorValue::vector<std::int64_t>({size})}};
  };
  EXPECT_EQ(predict(signature, sizes).results, "{\"id\": 17, \"size\": 1}\n");
}

TEST_F(BatchShard, AFolderWithAnotherJobIsRefused) {
  write_bytes(folder_ / "in.json", "1\n");
  open("out", doubling());
  job_.batch_size = 8;
  EXPECT_THROW(open("out", doubling()), FailedPrecondition);
  job_.batch_size = 4;
  EXPECT_NO_THROW(open("out", doubling()));
  write_bytes(folder_ / "in.json", "1\n2\n");
  EXPECT_THROW(open("out", doubling()), FailedPrecondition);
  std::filesystem::create_directories(folder_ / "other");
  write_bytes(folder_ / "other/prediction.results-00000-of-00001", "");
  EXPECT_THROW(open("other", doubling()), AlreadyExists);
}

TEST_F(BatchShard, AnInputThatChangesMeanwhileEndsTheShard) {
  write_bytes(folder_ / "in.json", "1\n");
  const BatchJob job = open("out", doubling());
  write_bytes(folder_ / "in.json", "1\n2\n");
  EXPECT_THROW(run(folder_ / "out", job, doubling(), twice), FailedPrecondition);
}

TEST_F(BatchShard, FilesWithoutInstancesAreRefused) {
  write_bytes(folder_ / "in.json", "");
  EXPECT_THROW(open("out", doubling()), InvalidArgument);
  EXPECT_THROW(input_files_of({(folder_ / "absent*").string()}), NotFound);
}

TEST(BatchFormats, AreKnownByBothSpellings) {
  EXPECT_EQ(parse_batch_input("TF_RECORD_GZIP"), BatchInput::kTFRecordGzip);
  EXPECT_EQ(parse_batch_input("text"), BatchInput::kJson);
  EXPECT_THROW(parse_batch_input("xml"), InvalidArgument);
}

}  // namespace
}  // namespace muster::serving
