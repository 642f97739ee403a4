#include "muster/orchestration/jobs/machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::jobs {
namespace {

using ::muster::testing::message_of;
using ::muster::testing::TempDir;
using ::muster::testing::write_bytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A host that is as large as the test says.
MachineTable table_of(double cpus, std::int64_t gpus = 0) {
  MachineTable table = MachineTable::standard();
  table.host = {.cpus = cpus, .memory_gb = 1000, .gpus = gpus};
  return table;
}

Submission of_tier(const std::string& tier) {
  Submission submission;
  submission.job.training_input.scale_tier = tier;
  return submission;
}

LocalRun resolved(Submission submission, const MachineTable& table) {
  resolve_machines(submission, table);
  return submission.job.local;
}

TEST(Machines, TiersGiveTheSamplesCounts) {
  const LocalRun standard = resolved(of_tier("STANDARD_1"), table_of(1000));
  EXPECT_EQ(standard.workers, 4);
  EXPECT_EQ(standard.ps, 3);
  EXPECT_FALSE(standard.is_single);
  EXPECT_EQ(standard.chief, "master");
  EXPECT_DOUBLE_EQ(standard.needs.cpus, 5 * 8 + 3 * 4);
  const LocalRun premium = resolved(of_tier("PREMIUM_1"), table_of(1000));
  EXPECT_EQ(premium.workers, 19);
  EXPECT_EQ(premium.ps, 11);
  EXPECT_TRUE(resolved(of_tier(""), table_of(1000)).is_single);
}

TEST(Machines, NeedsAreCappedAtWhatTheHostHasWithAWarning) {
  Submission submission = of_tier("STANDARD_1");
  resolve_machines(submission, table_of(2));
  EXPECT_EQ(submission.job.local.workers, 4);
  EXPECT_DOUBLE_EQ(submission.job.local.needs.cpus, 2);
  EXPECT_THAT(submission.warnings, ElementsAre(HasSubstr("8 tasks, which share the 2 processors")));
  Submission gpu = of_tier("BASIC_GPU");
  resolve_machines(gpu, table_of(8));
  EXPECT_EQ(gpu.job.local.needs.gpus, 0);
  EXPECT_THAT(gpu.warnings, ElementsAre(HasSubstr("asks for 1 GPUs, and this host has 0")));
}

TEST(Machines, RefusesWhatCannotBeHadAndSaysWhereItStands) {
  Submission unknown = of_tier("STANDRAD_1");
  unknown.origins["scaleTier"] = "config.yaml:2";
  EXPECT_THAT(message_of([&] { resolve_machines(unknown, table_of(2)); }),
              AllOf(HasSubstr("\"STANDRAD_1\" (config.yaml:2)"), HasSubstr("CUSTOM"),
                    HasSubstr("did you mean STANDARD_1?")));
  Submission tpu = of_tier("BASIC_TPU");
  EXPECT_THAT(message_of([&] { resolve_machines(tpu, table_of(2)); }), HasSubstr("no TPU"));

  Submission counts = of_tier("BASIC");
  counts.job.training_input.worker.count = 2;
  counts.origins["workerCount"] = "config.yaml:4";
  EXPECT_THAT(message_of([&] { resolve_machines(counts, table_of(2)); }),
              AllOf(HasSubstr("workerCount (config.yaml:4)"), HasSubstr("CUSTOM alone")));

  Submission no_type = of_tier("CUSTOM");
  EXPECT_THAT(message_of([&] { resolve_machines(no_type, table_of(2)); }),
              HasSubstr("--master-machine-type"));
  no_type.job.training_input.master.machine_type = "standard";
  no_type.job.training_input.parameter_server.count = 1;
  EXPECT_THAT(message_of([&] { resolve_machines(no_type, table_of(2)); }),
              HasSubstr("parameterServerCount needs a machine type"));
  no_type.job.training_input.parameter_server.machine_type = "n1-standard";
  EXPECT_THAT(message_of([&] { resolve_machines(no_type, table_of(2)); }),
              HasSubstr("no machine type \"n1-standard\""));
}

TEST(Machines, CustomTakesCountsAndTypesThatTellTheirSize) {
  Submission submission = of_tier("CUSTOM");
  TrainingInput& input = submission.job.training_input;
  input.master.machine_type = "n1-highcpu-8";
  input.worker = {.machine_type = "n1-standard-4", .count = 2, .accelerator = {"k80", 2}};
  input.evaluator = {.machine_type = "standard", .count = 1};
  const LocalRun run = resolved(submission, table_of(100, 4));
  EXPECT_DOUBLE_EQ(run.needs.cpus, 8 + 8 + 4);
  EXPECT_DOUBLE_EQ(run.needs.memory_gb, 8 * 0.9 + 2 * 15 + 15);
  EXPECT_EQ(run.needs.gpus, 4);
  EXPECT_EQ(run.chief, "chief");
}

TEST(Machines, GpusGoToTheTasksThatAskedForThem) {
  LocalRun run{.workers = 2, .master_gpus = 1, .worker_gpus = 2, .gpus = {"0", "1", "2", "5", "6"}};
  EXPECT_THAT(deal_gpus(run), ElementsAre("0", "1,2", "5,6"));
  run.gpus = {"3", "4"};
  EXPECT_THAT(deal_gpus(run), ElementsAre("3", "4", "3"));
  run.gpus.clear();
  EXPECT_THAT(deal_gpus(run), IsEmpty());
}

TEST(Machines, ASiteLaysItsOwnOver) {
  if (!MUSTER_HAS_YAML) GTEST_SKIP() << "muster was built without yaml-cpp";
  const TempDir dir;
  write_bytes(dir / "machines.yaml",
              "host: {cpus: 3.5, memoryGb: 8, gpus: 1}\n"
              "machineTypes:\n  half: {cpus: 0.5, memoryGb: 0.25}\n"
              "scaleTiers:\n  pair: {masterType: half, workerType: half, workerCount: 1}\n");
  MachineTable table = MachineTable::standard();
  table.lay_over(dir / "machines.yaml");
  const LocalRun run = resolved(of_tier("PAIR"), table);
  EXPECT_EQ(run.workers, 1);
  EXPECT_DOUBLE_EQ(run.needs.cpus, 1);
  EXPECT_DOUBLE_EQ(table.host.cpus, 3.5);
  EXPECT_TRUE(table.tiers.contains("STANDARD_1"));
}

TEST(Machines, ASitesMistakesAreNamedWithTheirLine) {
  if (!MUSTER_HAS_YAML) GTEST_SKIP() << "muster was built without yaml-cpp";
  const TempDir dir;
  const auto error_of = [&](const std::string& text) {
    write_bytes(dir / "machines.yaml", text);
    MachineTable table = table_of(2);
    return message_of([&] { table.lay_over(dir / "machines.yaml"); });
  };
  const std::string file = (dir / "machines.yaml").string();
  EXPECT_THAT(error_of("machineTypes:\n  a: {cpu: 1}\n"),
              AllOf(StartsWith(file + ":2: "), HasSubstr("did you mean cpus?")));
  EXPECT_THAT(error_of("machineTypes:\n  a: {cpus: -1}\n"), StartsWith(file + ":2: "));
  EXPECT_THAT(error_of("scaleTiers:\n  a: {masterType: b, workerCount: 2}\n"),
              StartsWith(file + ":2: "));
  EXPECT_THAT(error_of("tiers: {}\n"), StartsWith(file + ":1: "));
}

TEST(Machines, OfThisHostAreMoreThanNothing) {
  EXPECT_GE(this_host().cpus, 1);
  EXPECT_GT(this_host().memory_gb, 0);
}

}  // namespace
}  // namespace muster::jobs
