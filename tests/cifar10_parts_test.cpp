// Unit tests of examples/cifar10: its flags, input, network and plan.
#include <gmock/gmock.h>
#include <torch/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "examples/cifar10/flags.h"
#include "examples/cifar10/input.h"
#include "examples/cifar10/network.h"
#include "examples/cifar10/plan.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/record_writer.h"
#include "muster/data/records/synthetic_images.h"
#include "muster/nn/model/head.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace cifar10 {
namespace {

using muster::Batch;
using muster::InputContext;
using muster::Mode;
using muster::Path;
using muster::UsageError;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// ------------------------------------------------------------------------------------- the flags

Flags parsed(const std::vector<std::string>& words) {
  auto result = parse_flags(words);
  EXPECT_FALSE(result.exit_status.has_value());
  return result.flags;
}

TEST(Cifar10Flags, HaveTheDefaultsOfTheSeeds) {
  const Flags flags = parsed({"--data-dir", "d", "--job-dir", "j"});
  EXPECT_EQ(flags.num_layers, 44);
  EXPECT_EQ(flags.train_steps, 80'000);
  EXPECT_EQ(flags.train_batch_size, 128);
  EXPECT_EQ(flags.eval_batch_size, 100);
  EXPECT_EQ(flags.learning_rate, 0.1);
  EXPECT_EQ(flags.momentum, 0.9);
  EXPECT_EQ(flags.weight_decay, 2e-4);
  EXPECT_EQ(flags.batch_norm_decay, 0.997);
  EXPECT_EQ(flags.batch_norm_epsilon, 1e-5);
  EXPECT_TRUE(flags.use_distortion_for_training);
  EXPECT_FALSE(flags.run_experiment);
  EXPECT_NO_THROW(check(flags));
}

TEST(Cifar10Flags, AreTakenInBothSpellings) {
  const Flags old = parsed({"--data_dir=d", "--model_dir=j", "--num_gpus=2", "--num_layers=20",
                            "--train_steps=5", "--train_batch_size=64", "--eval_batch_size=50",
                            "--weight_decay=0.001", "--num_intra_threads=3", "--num_workers=2",
                            "--batch_norm_decay=0.9", "--force_gpu_compatible"});
  const Flags later =
      parsed({"--data-dir",        "d",  "--job-dir",          "j",     "--num-gpus",          "2",
              "--num-layers",      "20", "--train-steps",      "5",     "--train-batch-size",  "64",
              "--eval-batch-size", "50", "--weight-decay",     "0.001", "--num-intra-threads", "3",
              "--num-workers",     "2",  "--batch-norm-decay", "0.9"});
  for (const Flags& flags : {old, later}) {
    EXPECT_EQ(flags.data_dir, "d");
    EXPECT_EQ(flags.job_dir, "j");
    EXPECT_EQ(flags.num_gpus, 2);
    EXPECT_EQ(flags.num_layers, 20);
    EXPECT_EQ(flags.train_steps, 5);
    EXPECT_EQ(flags.train_batch_size, 64);
    EXPECT_EQ(flags.eval_batch_size, 50);
    EXPECT_EQ(flags.weight_decay, 0.001);
    EXPECT_EQ(flags.num_intra_threads, 3);
    EXPECT_EQ(flags.num_workers, 2);
    EXPECT_EQ(flags.batch_norm_decay, 0.9);
  }
}

TEST(Cifar10Flags, TheLastOneCounts) {
  EXPECT_EQ(parsed({"--train-steps", "5", "--train_steps=6"}).train_steps, 6);
  EXPECT_FALSE(parsed({"--sync", "--sync=false"}).cluster.sync);
  EXPECT_THAT(parsed({"--devices", "cuda:0,cuda:0"}).devices,
              ::testing::ElementsAre("cuda:0", "cuda:0"));
}

// Python's argparse made any word that is not empty true, False among them.
TEST(Cifar10Flags, SwitchesAreTakenWithAndWithoutAValue) {
  EXPECT_TRUE(parsed({"--run_experiment=True"}).run_experiment);
  EXPECT_TRUE(parsed({"--run-experiment", "True"}).run_experiment);
  EXPECT_TRUE(parsed({"--run-experiment", "--sync"}).run_experiment);
  EXPECT_FALSE(parsed({"--use-distortion-for-training", "False"}).use_distortion_for_training);
  EXPECT_FALSE(parsed({"--use_distortion_for_training=false"}).use_distortion_for_training);
  EXPECT_FALSE(parsed({"--sync=False"}).cluster.sync);
  EXPECT_EQ(parsed({"--is_cpu_ps"}).variable_strategy, "CPU");
  EXPECT_EQ(parsed({"--is_cpu_ps=False"}).variable_strategy, "GPU");
  EXPECT_EQ(parsed({"--variable-strategy", "CPU", "--is-cpu-ps", "True"}).variable_strategy, "CPU");
}

TEST(Cifar10Flags, WhatCannotBeTrainedIsRefusedWithTheFlagsName) {
  const Flags good = parsed({"--data-dir", "d", "--job-dir", "j"});
  const auto refused = [&](auto change) {
    Flags flags = good;
    change(flags);
    return muster::testing::message_of([&] { check(flags); });
  };
  EXPECT_THAT(refused([](Flags& f) { f.data_dir.clear(); }), HasSubstr("--data-dir"));
  EXPECT_THAT(refused([](Flags& f) { f.num_gpus = -1; }), HasSubstr("--num-gpus"));
  EXPECT_THAT(refused([](Flags& f) { f.num_gpus = 0, f.variable_strategy = "GPU"; }),
              AllOf(HasSubstr("--num-gpus=0"), HasSubstr("--variable-strategy=GPU")));
  EXPECT_THAT(refused([](Flags& f) { f.num_layers = 43; }), HasSubstr("--num-layers"));
  EXPECT_THAT(refused([](Flags& f) { f.num_gpus = 3; }),
              AllOf(HasSubstr("--train-batch-size=128"), HasSubstr("--num-gpus=3")));
  EXPECT_THAT(refused([](Flags& f) { f.num_gpus = 8; }),
              AllOf(HasSubstr("--eval-batch-size=100"), HasSubstr("--num-gpus=8")));
  EXPECT_THAT(refused([](Flags& f) { f.train_steps = 0; }), HasSubstr("--train-steps"));
  EXPECT_THAT(refused([](Flags& f) { f.momentum = 1; }), HasSubstr("--momentum"));
  EXPECT_THAT(refused([](Flags& f) { f.eval_every = 5, f.save_checkpoints_steps = 2; }),
              HasSubstr("--eval-every=5"));
  EXPECT_THAT(refused([](Flags& f) { f.image_size = 41; }), HasSubstr("--image-size"));
  EXPECT_THAT(refused([](Flags& f) { f.gpu_augmentation = true, f.brightness = 3; }),
              HasSubstr("--gpu-augmentation"));
}

// -------------------------------------------------------------------------------------- the plan

muster::TaskEnvironment task_of(const std::string& type) {
  return muster::parse_tf_config(
      R"({"cluster": {"master": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]},
          "task": {"type": ")" +
      type + R"(", "index": 0}})");
}

TEST(Cifar10Layout, SplitsTheBatchOfAProcessOverItsTowers) {
  Flags flags;
  flags.num_gpus = 4;
  const Layout layout = layout_of(flags, {}, /*gpus=*/8);
  EXPECT_THAT(layout.devices, ::testing::ElementsAre("cuda:0", "cuda:1", "cuda:2", "cuda:3"));
  EXPECT_EQ(layout.replicas, 4);
  EXPECT_EQ(layout.replica_batch, 32);
  EXPECT_EQ(layout.step_images, 128);
}

TEST(Cifar10Layout, EveryTaskThatTrainsHasABatch) {
  Flags flags;
  const Layout layout = layout_of(flags, task_of("worker"), 0);
  EXPECT_THAT(layout.devices, ::testing::ElementsAre("cpu"));
  EXPECT_EQ(layout.tasks, 3);
  EXPECT_EQ(layout.replicas, 3);
  EXPECT_EQ(layout.replica_batch, 128);
  EXPECT_EQ(layout.step_images, 384);
  flags.replicas = 6;
  EXPECT_EQ(layout_of(flags, task_of("worker"), 0).replica_batch, 64);
  flags.replicas = 5;
  EXPECT_THROW(layout_of(flags, task_of("worker"), 0), UsageError);
}

TEST(Cifar10Layout, TakesAGpuWhereThereIsOneAndRefusesThoseThatAreNot) {
  Flags flags;
  EXPECT_THAT(layout_of(flags, {}, 2).devices, ::testing::ElementsAre("cuda:0"));
  flags.num_gpus = 1;
  EXPECT_THAT(muster::testing::message_of([&] { layout_of(flags, {}, 0); }),
              AllOf(HasSubstr("--num-gpus=1"), HasSubstr("no GPU"), HasSubstr("--num-gpus=0")));
  // A ps computes nothing there.
  EXPECT_THAT(layout_of(flags, task_of("ps"), 0).devices, ::testing::ElementsAre("cpu"));
  flags.num_gpus.reset();
  flags.variable_strategy = "GPU";
  EXPECT_THROW(layout_of(flags, {}, 0), UsageError);
}

TEST(Cifar10Layout, ChecksWhatTheFlagsSayOfTheCluster) {
  Flags flags;
  flags.num_workers = 3;
  EXPECT_EQ(layout_of(flags, task_of("master"), 0).tasks, 3);
  EXPECT_THAT(muster::testing::message_of([&] { layout_of(flags, {}, 0); }),
              AllOf(HasSubstr("--num-workers=3"), HasSubstr("alone")));
  flags.num_workers = 2;
  EXPECT_THAT(muster::testing::message_of([&] { layout_of(flags, task_of("master"), 0); }),
              AllOf(HasSubstr("--num-workers=2"), HasSubstr("3 tasks that train")));
  flags.num_workers.reset();
  flags.cluster.strategy = "collective";
  EXPECT_THROW(layout_of(flags, task_of("master"), 0), UsageError);
  flags.cluster.strategy = "auto";
  EXPECT_EQ(layout_of(flags, task_of("master"), 0).update_images, 384);
  // Then every task's 128 images are an update.
  flags.cluster.sync = false;
  EXPECT_EQ(layout_of(flags, task_of("master"), 0).update_images, 128);
}

TEST(Cifar10Layout, RefusesWhatIsForPsTasksWhereThereAreNone) {
  const auto refused = [](auto change) {
    Flags flags;
    change(flags);
    EXPECT_NO_THROW(layout_of(flags, task_of("worker"), 0));
    return muster::testing::message_of([&] { layout_of(flags, {}, 0); });
  };
  EXPECT_THAT(refused([](Flags& f) { f.cluster.sync = false; }), HasSubstr("--sync=false"));
  EXPECT_THAT(refused([](Flags& f) { f.cluster.ps_log = true; }), HasSubstr("--ps-log"));
  EXPECT_THAT(refused([](Flags& f) { f.cluster.backup_replicas = 1; }),
              HasSubstr("--backup-replicas"));
  Flags flags;
  flags.cluster.max_staleness = 3;
  EXPECT_THROW(layout_of(flags, task_of("worker"), 0), UsageError);
}

struct Golden {
  std::int64_t workers, first, second, third;
};

class Cifar10Schedule : public ::testing::TestWithParam<Golden> {};

TEST_P(Cifar10Schedule, HasTheBoundariesOfTheOriginal) {
  const auto rate = schedule(0.1, 45'000, 128 * GetParam().workers);
  EXPECT_DOUBLE_EQ(rate.at(0), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(GetParam().first), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(GetParam().first + 1), 0.01);
  EXPECT_DOUBLE_EQ(rate.at(GetParam().second), 0.01);
  EXPECT_DOUBLE_EQ(rate.at(GetParam().second + 1), 0.001);
  EXPECT_DOUBLE_EQ(rate.at(GetParam().third), 0.001);
  EXPECT_DOUBLE_EQ(rate.at(GetParam().third + 1), 0.0002);
}

INSTANTIATE_TEST_SUITE_P(OneToThreeWorkers, Cifar10Schedule,
                         ::testing::Values(Golden{1, 28'782, 43'173, 105'300},
                                           Golden{2, 14'350, 21'525, 52'500},
                                           Golden{3, 9'594, 14'391, 35'100}));

TEST(Cifar10Plan, ConfiguresTheRunByFlagsAndEnvironment) {
  Flags flags;
  flags.job_dir = "runs/cifar10";
  muster::RunConfig environment;
  environment.cluster.task = task_of("worker");
  const auto layout = layout_of(flags, environment.cluster.task, 0);
  EXPECT_THAT(run_config(flags, layout, environment).to_string(),
              AllOf(HasSubstr("'_model_dir': 'runs/cifar10'"),
                    HasSubstr("'_save_checkpoints_steps': None, '_save_checkpoints_secs': 600"),
                    HasSubstr("'_task_type': 'worker', '_task_id': 0"),
                    HasSubstr("'_is_chief': False, '_num_ps_replicas': 1"),
                    HasSubstr("'_num_worker_replicas': 3")));
  flags.eval_every = 50;
  EXPECT_THAT(run_config(flags, layout, environment).to_string(),
              HasSubstr("'_save_checkpoints_steps': 50, '_save_checkpoints_secs': None"));
  flags.cluster.join_timeout_secs = 5;
  EXPECT_EQ(run_config(flags, layout, environment).cluster.join_timeout, std::chrono::seconds(5));
  flags.job_dir.clear();
  EXPECT_THROW(run_config(flags, layout, environment), UsageError);
}

TEST(Cifar10Plan, SaysSoWhereTfConfigNamesTheModelDirAlsoWhenAFlagDoes) {
  Flags flags;
  flags.job_dir = "runs/both/";
  muster::RunConfig environment;
  environment.model_dir = "runs/both";
  std::vector<std::string> lines;
  muster::log::set_sink([&](auto, std::string_view line) { lines.emplace_back(line); });
  const auto config = run_config(flags, layout_of(flags, environment.cluster.task, 0), environment);
  muster::log::set_sink({});
  EXPECT_EQ(config.model_dir, "runs/both/");
  EXPECT_THAT(lines, Contains(HasSubstr("Using model_dir in TF_CONFIG: runs/both")));
}

// ------------------------------------------------------------------------------------- the input

constexpr std::size_t kImages = 90;

class Cifar10Input : public ::testing::Test {
 protected:
  Cifar10Input() { write("train.tfrecords", 0, kImages); }

  void write(const std::string& name, std::size_t begin, std::size_t end) const {
    muster::RecordWriter writer(folder_ / name, {.write_index = true});
    for (std::size_t i = begin; i < end; ++i) {
      std::string record;
      // The number of the image as its label tells where it comes from.
      muster::ExampleBuilder()
          .add_bytes("image", images_.image(i))
          .add_int("label", static_cast<std::int64_t>(i))
          .serialize_to(record);
      writer.append(record);
    }
    writer.close();
  }

  TrainingInput input(std::size_t threads = 1) const {
    return {.files = {folder_ / "train.tfrecords"},
            .images = kImages,
            .batch_size = 8,
            .distortion = Distortion{.crop = {.padding = 4, .mirror = true}},
            .threads = threads};
  }

  // [height, width, channels]
  at::Tensor image(std::int64_t number) const {
    std::string bytes(images_.image(static_cast<std::size_t>(number)));
    return torch::from_blob(bytes.data(), {3, 32, 32}, torch::kByte).permute({1, 2, 0}).clone();
  }

  muster::testing::TempDir folder_;
  muster::SyntheticImages images_ = muster::make_synthetic_cifar10({.count = kImages});
};

InputContext replica(std::int64_t number, std::int64_t of = 1, std::uint64_t seed = 5) {
  return InputContext(Mode::kTrain, of, number, seed);
}

std::vector<std::int64_t> numbers_of(const Batch& batch) {
  const auto labels = batch.labels.tensor(muster::kLabel).contiguous();
  return {labels.data_ptr<std::int64_t>(), labels.data_ptr<std::int64_t>() + labels.numel()};
}

bool same(const Batch& left, const Batch& right) {
  return numbers_of(left) == numbers_of(right) &&
         at::equal(left.features.tensor(kImage), right.features.tensor(kImage));
}

// Whether some crop of the padded image, mirrored or not, is this one.
bool is_a_crop_of(const at::Tensor& cropped, const at::Tensor& whole) {
  const auto padded = at::constant_pad_nd(whole, {0, 0, 4, 4, 4, 4});
  for (std::int64_t top = 0; top <= 8; ++top) {
    for (std::int64_t left = 0; left <= 8; ++left) {
      const auto part = padded.slice(0, top, top + 32).slice(1, left, left + 32);
      if (at::equal(part, cropped) || at::equal(part.flip({1}), cropped)) return true;
    }
  }
  return false;
}

TEST_F(Cifar10Input, GivesBytesThatAreCropsOfTheImages) {
  const auto pass = training_batches(input(), replica(0)).iterate();
  std::set<std::int64_t> seen;
  bool any_changed = false;
  for (int i = 0; i < 6; ++i) {
    const auto batch = pass->next();
    const auto& images = batch->features.tensor(kImage);
    ASSERT_EQ(images.scalar_type(), torch::kByte);
    ASSERT_EQ(images.sizes(), at::IntArrayRef({8, 32, 32, 3}));
    const auto numbers = numbers_of(*batch);
    for (std::int64_t row = 0; row < 8; ++row) {
      const auto whole = image(numbers[static_cast<std::size_t>(row)]);
      EXPECT_TRUE(is_a_crop_of(images[row], whole));
      any_changed = any_changed || !at::equal(images[row], whole);
    }
    seen.insert(numbers.begin(), numbers.end());
  }
  EXPECT_TRUE(any_changed);
  EXPECT_GT(seen.size(), 30U);
}

TEST_F(Cifar10Input, IsTheSameStreamForAnyNumberOfThreads) {
  const auto one = training_batches(input(1), replica(0)).iterate();
  const auto three = training_batches(input(3), replica(0)).iterate();
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(same(*one->next(), *three->next())) << i;
}

TEST_F(Cifar10Input, GoesOnWhereItWasSavedInTheMiddleOfAnEpoch) {
  for (const std::size_t threads : {1, 3}) {
    const auto dataset = training_batches(input(threads), replica(1, 2));
    const auto pass = dataset.iterate();
    for (int i = 0; i < 17; ++i) pass->next();
    const auto resumed = dataset.iterate(pass->save());
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(same(*pass->next(), *resumed->next())) << i;
  }
}

TEST_F(Cifar10Input, DealsEachImageToOneReplicaAndDrawsForEachAnew) {
  std::vector<std::set<std::int64_t>> seen(2);
  std::vector<Batch> first;
  for (std::int64_t r = 0; r < 2; ++r) {
    const auto pass = training_batches(input(), replica(r, 2)).iterate();
    for (int i = 0; i < 40; ++i) {
      const auto batch = pass->next();
      if (i == 0) first.push_back(*batch);
      const auto numbers = numbers_of(*batch);
      seen[static_cast<std::size_t>(r)].insert(numbers.begin(), numbers.end());
    }
  }
  EXPECT_EQ(seen[0].size(), kImages / 2);
  EXPECT_EQ(seen[1].size(), kImages / 2);
  for (const auto number : seen[0]) EXPECT_FALSE(seen[1].contains(number));
  // The same places of the shards, but not drawn alike.
  std::vector<std::int64_t> places[2];
  for (std::size_t r = 0; r < 2; ++r) {
    for (const auto number : numbers_of(first[r])) places[r].push_back(number / 2);
  }
  EXPECT_NE(places[0], places[1]);
}

TEST_F(Cifar10Input, CropsOnTheDeviceAreThoseOfTheInput) {
  auto later = input();
  later.distortion->crop_later = true;
  const auto here = training_batches(input(), replica(0)).iterate();
  const auto there = training_batches(later, replica(0)).iterate();
  for (int i = 0; i < 5; ++i) {
    const auto whole = there->next();
    const auto cropped = muster::crop_images(whole->features.tensor(kImage),
                                             whole->features.tensor(kCrop), later.distortion->crop);
    EXPECT_TRUE(at::equal(cropped, here->next()->features.tensor(kImage)));
  }
}

TEST_F(Cifar10Input, GivesTheFirstBatchAgainAndAgainOnRequest) {
  auto once = input();
  once.same_batch = true;
  const auto pass = training_batches(once, replica(0)).iterate();
  const auto first = training_batches(input(), replica(0)).iterate()->next();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(*pass->next(), *first));
}

TEST_F(Cifar10Input, WithoutDistortionImagesAreWhole) {
  auto plain = input();
  plain.distortion.reset();
  const auto batch = training_batches(plain, replica(0)).iterate()->next();
  const auto numbers = numbers_of(*batch);
  for (std::int64_t row = 0; row < 8; ++row) {
    EXPECT_TRUE(at::equal(batch->features.tensor(kImage)[row],
                          image(numbers[static_cast<std::size_t>(row)])));
  }
}

TEST_F(Cifar10Input, RecolouredImagesAreBrighterAndOfOtherContrast) {
  auto colours = input();
  colours.distortion->crop.padding = 0;
  colours.distortion->crop.mirror = false;
  colours.distortion->max_brightness = 63;
  colours.distortion->min_contrast = 0.2;
  colours.distortion->max_contrast = 1.8;
  const auto batch = training_batches(colours, replica(0)).iterate()->next();
  const auto numbers = numbers_of(*batch);
  std::set<float> shifts;
  for (std::int64_t row = 0; row < 8; ++row) {
    const auto before = image(numbers[static_cast<std::size_t>(row)]).to(torch::kFloat);
    const auto after = batch->features.tensor(kImage)[row];
    const auto shift = (after - before).mean(at::IntArrayRef({0, 1}));
    // One delta for all channels, since contrast leaves their means.
    EXPECT_TRUE(at::allclose(shift, shift[0].expand_as(shift), 1e-3, 1e-2));
    EXPECT_LE(std::abs(shift[0].item<float>()), 63);
    const auto factor = after.std() / before.std();
    EXPECT_THAT(factor.item<float>(), AllOf(::testing::Ge(0.15F), ::testing::Le(1.9F)));
    shifts.insert(shift[0].item<float>());
  }
  EXPECT_EQ(shifts.size(), 8U);
}

TEST_F(Cifar10Input, EvaluatesAllImagesInOrder) {
  const auto pass =
      evaluation_input({folder_ / "train.tfrecords"}, 30)(InputContext(Mode::kEval, 1, 0, 0))
          .iterate();
  std::int64_t expected = 0;
  while (const auto batch = pass->next()) {
    for (const auto number : numbers_of(*batch)) EXPECT_EQ(number, expected++);
    EXPECT_TRUE(at::equal(batch->features.tensor(kImage)[0], image(numbers_of(*batch)[0])));
  }
  EXPECT_EQ(expected, kImages);
}

TEST_F(Cifar10Input, FindsTheFilesOfSubsetsInEitherForm) {
  EXPECT_EQ(files_of_subset(folder_.path(), "train").size(), 1U);
  EXPECT_EQ(count_images(files_of_subset(folder_.path(), "train")), kImages);
  EXPECT_THAT(
      muster::testing::message_of([&] { files_of_subset(folder_.path(), "train+validation"); }),
      AllOf(HasSubstr("validation.tfrecords"), HasSubstr("muster records write cifar10")));
  write("data_batch_5.tfrecords", 0, 10);
  EXPECT_EQ(count_images(files_of_subset(folder_.path(), "train+validation")), kImages + 10);
  EXPECT_THROW(files_of_subset(folder_.path(), "validate"), UsageError);
}

TEST_F(Cifar10Input, SaysWhatIsWrongWithOtherRecords) {
  muster::RecordWriter writer(folder_ / "train.tfrecords");
  std::string record;
  muster::ExampleBuilder().add_bytes("image", "short").add_int("label", 1).serialize_to(record);
  writer.append(record);
  writer.close();
  auto other = input();
  other.batch_size = 1;
  EXPECT_THAT(
      muster::testing::message_of([&] { training_batches(other, replica(0)).iterate()->next(); }),
      AllOf(HasSubstr("5 bytes"), HasSubstr("3072")));
}

// ----------------------------------------------------------------------------------- the network

TEST(Cifar10Network, LogsTheShapesAndTheSizeOfTheSeeds) {
  const NetworkOptions options = network_options({}, {});
  const auto lines = shape_lines(options, 0);
  EXPECT_EQ(lines.size(), 25U);
  EXPECT_EQ(lines[0], "image after unit resnet/tower_0/stage/residual_v1/: (?, 16, 32, 32)");
  EXPECT_THAT(lines, Contains("image after unit resnet/tower_0/stage_1/residual_v1/avg_pool/: (?, "
                              "16, 16, 16)"));
  EXPECT_EQ(lines[24], "image after unit resnet/tower_0/fully_connected/: (?, 11)");
  EXPECT_EQ(size_line(options),
            "658651 trainable scalars in 131 variables, 3168 moving statistics in 86");
}

std::shared_ptr<Network> small_network(const Flags& changed) {
  Flags flags = changed;
  flags.num_layers = 8;
  auto network = std::make_shared<Network>(network_options(flags, {}));
  network->eval();
  return network;
}

TEST(Cifar10Network, CropsImagesThatComeWholeFromTheMiddle) {
  const torch::NoGradGuard no_grad;
  Flags flags;
  flags.image_size = 24;
  const auto network = small_network(flags);
  const auto images = torch::randint(0, 256, {3, 32, 32, 3}).to(torch::kByte);
  const auto middle = images.slice(1, 4, 28).slice(2, 4, 28).contiguous();
  EXPECT_TRUE(
      at::equal(network->forward({{kImage, images}}), network->forward({{kImage, middle}})));
}

TEST(Cifar10Network, CropsWhereTheInputSaysWhere) {
  const torch::NoGradGuard no_grad;
  const auto network = small_network({});
  const auto images = torch::randint(0, 256, {2, 32, 32, 3}).to(torch::kByte);
  const auto crops = torch::tensor({-4, 3, 1, 2, 0, 0}, torch::kLong).view({2, 3});
  const auto cropped = muster::crop_images(images, crops, {.padding = 4, .mirror = true});
  EXPECT_TRUE(at::equal(network->forward({{kImage, images}, {kCrop, crops}}),
                        network->forward({{kImage, cropped}})));
}

TEST(Cifar10Network, WhitensInThePlaceOfScaling) {
  const torch::NoGradGuard no_grad;
  Flags flags;
  const auto plain = small_network(flags);
  flags.whitening = true;
  const auto whitening = small_network(flags);
  const auto images = torch::randint(0, 256, {2, 32, 32, 3}).to(torch::kByte);
  // The plain network takes x / 128 - 1 of what it is given.
  const auto undone = (muster::whiten(images) + 1) * 128;
  EXPECT_TRUE(at::allclose(whitening->forward({{kImage, images}}),
                           plain->forward({{kImage, undone}}), 1e-5, 1e-5));
  // A picture that is brighter and of less contrast is the same to it.
  EXPECT_TRUE(at::allclose(whitening->forward({{kImage, images.to(torch::kFloat)}}),
                           whitening->forward({{kImage, images.to(torch::kFloat) * 0.5 + 40}}),
                           1e-3, 1e-3));
}

TEST(Cifar10Network, PredictsClassesAndProbabilitiesAndShowsItsInput) {
  const torch::NoGradGuard no_grad;
  const auto network = small_network({});
  const auto images = torch::randint(0, 256, {4, 32, 32, 3}).to(torch::kByte);
  const auto head = muster::multi_class_head(11);
  const auto spec = network->call({.features = {{kImage, images}}}, Mode::kPredict, head.get());
  EXPECT_EQ(spec.predictions.size(), 2U);
  const auto& probabilities = spec.predictions.tensor("probabilities");
  EXPECT_EQ(probabilities.sizes(), at::IntArrayRef({4, 11}));
  EXPECT_TRUE(at::equal(spec.predictions.tensor("classes"), probabilities.argmax(1)));
  const auto labels = torch::zeros({4, 1}, torch::kLong);
  const auto trained =
      network->call(muster::make_batch({{kImage, images}}, labels), Mode::kTrain, head.get());
  const auto shown = trained.summaries.complete().images;
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_TRUE(at::equal(shown[0].second, images));
}

}  // namespace
}  // namespace cifar10
