// `muster checkpoint show` and `muster checkpoint hash`, as processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/data/checkpoint/checkpoint_hash.h"
#include "muster/data/checkpoint/checkpoint_store.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::TempDir;

Outcome checkpoint(const std::vector<std::string>& arguments) {
  std::vector<std::string> all{"checkpoint"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return testing::run_program(MUSTER_PROGRAM, all);
}

void save(const Path& model_dir) {
  const std::vector<float> kernel{1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> step{7};
  const std::vector<TensorView> tensors{
      {.name = "dense/kernel", .shape = {2, 3}, .bytes = std::as_bytes(std::span(kernel))},
      {.name = "global_step", .type = DataType::kInt64, .bytes = std::as_bytes(std::span(step))}};
  CheckpointStore(model_dir).save(7, tensors);
}

TEST(CheckpointShow, PrintsTensorsSortedWithTotals) {
  const TempDir dir;
  save(dir.path());
  const Outcome outcome = checkpoint({"show", dir.path()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "name          dtype             bytes  shape\n"
            "dense/kernel  float32              24  [2, 3]\n"
            "global_step   int64                 8  []\n"
            "2 tensors, 7 elements, 32 B in 1 data file\n");
}

TEST(CheckpointShow, PrintsJsonForPrograms) {
  const TempDir dir;
  save(dir.path());
  const Outcome outcome = checkpoint({"show", dir / "model.ckpt-7", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto all = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(all["tensors"][0],
            (nlohmann::json{
                {"name", "dense/kernel"}, {"dtype", "float32"}, {"shape", {2, 3}}, {"bytes", 24}}));
  EXPECT_EQ(all["total"]["bytes"], 32);
}

TEST(CheckpointShow, ReadsASavedModelOfTensorFlow) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const Outcome outcome = checkpoint({"show", data / "tensorflow/half_plus_two/00000123"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("3 tensors, 3 elements"));
}

TEST(CheckpointShow, SaysWhatToGiveWhenThereIsNoCheckpoint) {
  const TempDir dir;
  const Outcome outcome = checkpoint({"show", dir.path()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("there is no checkpoint at " + dir.path().string()));
}

TEST(CheckpointHash, PrintsTheHashAndThePrefix) {
  const TempDir dir;
  save(dir.path());
  const Outcome outcome = checkpoint({"hash", dir.path()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Path prefix = dir / "model.ckpt-7";
  EXPECT_EQ(outcome.out, checkpoint_hash(BundleReader(prefix)) + "  " + prefix.string() + "\n");
}

TEST(CheckpointHash, FailsOnADamagedTensor) {
  const TempDir dir;
  save(dir.path());
  testing::flip_byte(dir / "model.ckpt-7.data-00000-of-00001", 0);
  const Outcome outcome = checkpoint({"hash", dir.path()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("tensor 'dense/kernel': the checksum of 24 bytes at 0"));
}

TEST(CheckpointConvert, WritesABundleAsSafetensorsAndBack) {
  const TempDir dir;
  save(dir.path());
  const Path file = dir / "w.safetensors";
  const Outcome there = checkpoint({"convert", dir / "model.ckpt-7", file});
  EXPECT_EQ(there.status, 0) << there.err;
  EXPECT_EQ(there.out, "2 tensors, 32 B, from " + (dir / "model.ckpt-7").string() +
                           " (bundle) to " + file.string() + " (safetensors)\n");
  EXPECT_EQ(checkpoint({"convert", file, dir / "back"}).status, 0);
  EXPECT_EQ(checkpoint_hash(BundleReader(dir / "back")),
            checkpoint_hash(BundleReader(dir / "model.ckpt-7")));
}

TEST(CheckpointConvert, AppliesTheRulesOfAFileThenThoseOfTheCommand) {
  const TempDir dir;
  save(dir.path());
  testing::write_bytes(dir / "rules.txt", "drop global_step\npermute .*/kernel 1 0\n");
  const Outcome outcome =
      checkpoint({"convert", dir.path(), dir / "w.safetensors", "--map", dir / "rules.txt",
                  "--rule", "rename (.*)/kernel $1/weight", "--rule", "replace / ."});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Outcome shown = checkpoint({"show", dir / "w.safetensors"});
  EXPECT_EQ(shown.out,
            "name          dtype             bytes  shape\n"
            "dense.weight  float32              24  [3, 2]\n"
            "1 tensors, 6 elements, 24 B in " +
                (dir / "w.safetensors").string() + ", a safetensors file\n");
}

TEST(CheckpointConvert, ReplacesNothingUnlessAsked) {
  const TempDir dir;
  save(dir.path());
  testing::write_bytes(dir / "w.safetensors", "kept");
  const Outcome outcome = checkpoint({"convert", dir.path(), dir / "w.safetensors"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("is there already; give another name, or --overwrite"));
  EXPECT_EQ(testing::read_bytes(dir / "w.safetensors"), "kept");
  EXPECT_EQ(checkpoint({"convert", dir.path(), dir / "w.safetensors", "--overwrite"}).status, 0);
  EXPECT_NE(testing::read_bytes(dir / "w.safetensors"), "kept");
}

TEST(CheckpointShow, NamesOfAFileDoNotReachTheTerminalRaw) {
  const TempDir dir;
  const std::string header = R"({"a\u001b[2J\nb":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  std::string size(8, '\0');
  size[0] = static_cast<char>(header.size());
  testing::write_bytes(dir / "w.safetensors", size + header + "x");
  const Outcome outcome = checkpoint({"show", dir / "w.safetensors"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("[2J"));
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 3);
}

TEST(CheckpointConvert, OverwritesABundleByItself) {
  const TempDir dir;
  save(dir.path());
  const Path prefix = dir / "model.ckpt-7";
  const std::string before = checkpoint_hash(BundleReader(prefix));
  const Outcome outcome = checkpoint({"convert", prefix, prefix, "--overwrite"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(checkpoint_hash(BundleReader(prefix)), before);
  const Outcome failed =
      checkpoint({"convert", prefix, prefix, "--overwrite", "--rule", "rename global_step $9"});
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, HasSubstr("tensor 'global_step' would have an empty name"));
  EXPECT_EQ(checkpoint_hash(BundleReader(prefix)), before);
}

}  // namespace
}  // namespace muster
