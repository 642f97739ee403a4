// Extensions that a program adds without touching muster: a hook, an optimizer, a metric, a column,
// a store and a search algorithm. It includes the headers that are installed, and links what users
// link.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <map>
#include <mutex>

#include "muster/muster.h"
#include "muster/nn/api.h"
#include "muster/orchestration/api.h"
#include "muster/testing/temp_dir.h"

namespace {

// ------------------------------------------------------------------------------- what it adds

class StopAtLoss : public muster::Hook {
 public:
  explicit StopAtLoss(double target) : target_(target) {}
  void after_run(muster::Session& session) override {
    if (session.loss() < target_) session.request_stop("the loss is small");
  }

 private:
  double target_;
};

muster::Optimizer sign_descent(double rate) {
  return muster::custom_optimizer({.name = "sign_descent",
                                   .learning_rate = rate,
                                   .constants = {{"decay", 0.99}},
                                   .slots = {{"Rate", 1.0F}},
                                   .update = [](const muster::ElementUpdate& u) {
                                     const auto rate = static_cast<float>(u.learning_rate);
                                     for (std::size_t i = 0; i < u.values.size(); ++i) {
                                       const float g = u.gradients[i];
                                       u.values[i] -= rate * u.slots[0][i] *
                                                      static_cast<float>((g > 0) - (g < 0));
                                       u.slots[0][i] *= 0.99F;
                                     }
                                   }});
}

class RootMeanSquare : public muster::MetricOfSums<RootMeanSquare, 2> {
 public:
  void update(double value) {
    add(0, value * value);
    add(1, 1);
  }
  std::string_view kind() const override { return "root_mean_square"; }
  double compute() const override { return sum(1) == 0 ? 0 : std::sqrt(sum(0) / sum(1)); }
};

muster::FeatureColumn squared_column(const muster::FeatureColumn& source) {
  return muster::function_column(
      source.name() + "_squared",
      {.sources = {source}, .function = [](const at::Tensor& x) { return x.square(); }});
}

/// Files in memory, by their whole path.
class MemoryFiles : public muster::FileSystem {
 public:
  std::unique_ptr<muster::ReadableFile> open(const muster::Path& path) override {
    return std::make_unique<Reader>(bytes_of(path));
  }
  std::shared_ptr<const muster::MappedFile> map(const muster::Path& path, muster::Access) override {
    return std::make_shared<Mapped>(bytes_of(path));
  }
  std::unique_ptr<muster::WritableFile> create(const muster::Path& path) override {
    return std::make_unique<Writer>(*this, path, "");
  }
  std::unique_ptr<muster::WritableFile> append(const muster::Path& path) override {
    return std::make_unique<Writer>(*this, path, status(path) ? bytes_of(path) : "");
  }
  std::optional<muster::FileStatus> status(const muster::Path& path) override {
    const std::scoped_lock lock(mutex_);
    const auto found = files_.find(path.string());
    if (found != files_.end()) return muster::FileStatus{.size_bytes = found->second.size()};
    // A folder is there while there is a file in it.
    const auto inside = files_.lower_bound(path.string() + "/");
    if (inside == files_.end() || !inside->first.starts_with(path.string() + "/")) return {};
    return muster::FileStatus{.is_directory = true};
  }
  std::vector<std::string> list(const muster::Path& folder) override {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [path, bytes] : files_) {
      if (muster::Path(path).parent_path() == folder)
        names.push_back(muster::Path(path).filename());
    }
    return names;
  }
  void create_directories(const muster::Path&) override {}
  void remove(const muster::Path& path) override {
    const std::scoped_lock lock(mutex_);
    files_.erase(path.string());
  }
  void remove_all(const muster::Path& path) override { remove(path); }
  void rename(const muster::Path& from, const muster::Path& to) override {
    const std::scoped_lock lock(mutex_);
    auto node = files_.extract(from.string());
    files_.insert_or_assign(to.string(), std::move(node.mapped()));
  }
  void sync_directory(const muster::Path&) override {}

 private:
  struct Reader : muster::ReadableFile {
    explicit Reader(std::string whole) : bytes(std::move(whole)) {}
    std::size_t read(std::span<char> out) override {
      const std::size_t count = bytes.copy(out.data(), out.size(), place);
      place += count;
      return count;
    }
    void seek(std::uint64_t offset) override {
      place = std::min<std::size_t>(offset, bytes.size());
    }
    std::uint64_t size() const override { return bytes.size(); }
    std::string bytes;
    std::size_t place = 0;
  };
  struct Mapped : muster::MappedFile {
    explicit Mapped(std::string whole) : held(std::move(whole)) {}
    std::string_view bytes() const override { return held; }
    std::string held;
  };
  struct Writer : muster::WritableFile {
    Writer(MemoryFiles& all, const muster::Path& to, std::string begin)
        : files(all), path(to.string()), bytes(std::move(begin)) {
      sync();
    }
    void write(std::string_view more) override { bytes += more; }
    void sync() override {
      const std::scoped_lock lock(files.mutex_);
      files.files_[path] = bytes;
    }
    void close() override { sync(); }
    MemoryFiles& files;
    std::string path;
    std::string bytes;
  };

  std::string bytes_of(const muster::Path& path) {
    const std::scoped_lock lock(mutex_);
    const auto found = files_.find(path.string());
    if (found == files_.end()) throw muster::NotFound("there is no {}", path.string());
    return found->second;
  }

  std::mutex mutex_;
  std::map<std::string, std::string> files_;
};

/// Trial n tries the n-th of the points 0, 1/4, 2/4, ... of every parameter.
class Quarters : public muster::tuning::Searcher {
 public:
  explicit Quarters(std::size_t dimensions) : dimensions_(dimensions) {}
  std::vector<muster::tuning::Point> suggest(
      std::size_t count, std::span<const muster::tuning::Observation> history) const override {
    std::vector<muster::tuning::Point> points;
    for (std::size_t i = 0; i < count; ++i) {
      points.emplace_back(dimensions_, static_cast<double>((history.size() + i) % 5) / 4);
    }
    return points;
  }

 private:
  std::size_t dimensions_;
};

// ---------------------------------------------------------------------------- what it does with it

muster::Batch parabola(std::span<const std::int64_t> numbers) {
  std::vector<float> x, y;
  for (const std::int64_t n : numbers) {
    x.push_back(static_cast<float>(n % 21 - 10) / 10);
    y.push_back(3 * x.back() * x.back() - 1);
  }
  const auto rows = static_cast<std::int64_t>(numbers.size());
  return muster::make_batch({{"x", muster::tensor_of(x, {rows, 1})}},
                            muster::tensor_of(y, {rows, 1}));
}
muster::Dataset<muster::Batch> parabola_input(const muster::InputContext&) {
  return muster::range(2100).repeat().batch(21, parabola);
}

TEST(Plugins, AHookAnOptimizerAndAColumnTrainAnEstimator) {
  const muster::testing::TempDir folder;
  const auto config = muster::RunConfig{}.with_model_dir(folder.path());
  const auto estimator_of = [&] {
    return muster::linear_regressor(
        {.feature_columns = {squared_column(muster::numeric_column("x"))},
         .optimizer = sign_descent(0.1)},
        config);
  };
  estimator_of().train(parabola_input,
                       {.max_steps = 1000, .hooks = {std::make_shared<StopAtLoss>(0.01)}});
  const auto result = estimator_of().evaluate(parabola_input, {.steps = 1});
  EXPECT_GT(result.at("global_step"), 10);
  EXPECT_LT(result.at("global_step"), 1000);
  EXPECT_LT(result.at("average_loss"), 0.01);
}

TEST(Plugins, AMetricMergesAndTravels) {
  muster::MetricSet set;
  set.add("rms", RootMeanSquare()).update(3);
  muster::MetricSet other;
  other.add("rms", RootMeanSquare()).update(4);
  muster::MetricSet::Kinds kinds = muster::built_in_metrics();
  kinds.merge(muster::metric_kinds<RootMeanSquare>());
  set.merge(muster::MetricSet::from_bytes(other.to_bytes(), kinds));
  EXPECT_DOUBLE_EQ(set.at("rms").compute(), std::sqrt(12.5));
}

TEST(Plugins, AStoreHoldsRecords) {
  muster::register_file_system("memory", std::make_shared<MemoryFiles>());
  const muster::Path path = "memory://data/train.tfrecords";
  {
    muster::RecordWriter writer(path);
    for (const char* record : {"alpha", "beta"}) writer.append(record);
    writer.close();
  }
  EXPECT_THAT(muster::glob("memory://data/*.tfrecords"), ::testing::ElementsAre(path));
  std::vector<std::string> records;
  auto reader = muster::tfrecords({path}).iterate();
  while (auto record = reader->next()) records.emplace_back(record->bytes);
  EXPECT_THAT(records, ::testing::ElementsAre("alpha", "beta"));
}

TEST(Plugins, ASearchAlgorithmRunsAStudy) {
  const muster::testing::TempDir folder;
  // A trial's program, which reports its value of x as the loss.
  const std::string trial =
      "for word; do case $word in --x=*) x=${word#--x=} ;; esac; done\n"
      "echo \"{\\\"loss\\\": \\\"$x\\\", \\\"global_step\\\": \\\"1\\\"}\" > "
      "$CLOUD_ML_HP_METRIC_FILE";
  muster::tuning::StudyOptions options{
      .hyperparameters = R"({"goal": "MAXIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 3,
        "algorithm": "QUARTERS",
        "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 4}]})",
      .job_dir = folder / "study",
      .command = {"/bin/sh", "-c", trial, "trial"}};
  options.algorithms.add(
      {.names = {"QUARTERS"}, .make = [](const muster::tuning::SearchSpace& space, std::uint64_t) {
         return std::make_unique<Quarters>(space.size());
       }});
  const muster::tuning::Study study = muster::tuning::run_study(options);
  ASSERT_EQ(study.trials.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::stod(study.trials[i].values.at("x")), static_cast<double>(i));
  }
  EXPECT_EQ(study.best()->id, 3);
}

}  // namespace
