#include "muster/serving/protocols/tensorflow/request_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "muster/base/error.h"
#include "muster/data/records/record_reader.h"
#include "muster/serving.pb.h"
#include "muster/serving/core/service_fake.h"
#include "muster/serving/protocols/tensorflow/tensor_proto_internal.h"
#include "muster/serving/protocols/tensorflow/warm_up.h"

namespace muster::serving {
namespace {

namespace wire = tensorflow::serving;
using graph::TensorValue;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RequestRecorderTest : public ::testing::Test {
 protected:
  void open(RecordingOptions options) {
    recorder_ = std::make_shared<RequestRecorder>(options);
    service_.service().add_observer(recorder_);
  }
  RecordingOptions to_folder() const { return {.folder = folder(), .share = 1}; }
  Path folder() const { return service_.folder() / "recorded"; }
  Path version_folder() const { return service_.folder() / "m/2"; }

  // x + 2, by version 2.
  void ask(float x) {
    Call call{.model = "m"};
    service_.service().run(call, nullptr,
                           {.inputs =
                                [x](const ModelVersion&, const graph::SignatureDef&) {
                                  return Tensors{{"x", TensorValue::vector<float>({x})}};
                                },
                            .answer = [](const ModelVersion&, const BatchAnswer&) {}});
  }
  // The loop shows it requests after they were answered, in any of its threads.
  void wait_until_seen(std::uint64_t requests) {
    while (counted() < static_cast<double>(requests)) std::this_thread::yield();
  }
  // All that it has seen is in files then.
  void close(std::uint64_t seen) {
    wait_until_seen(seen);
    recorder_->close();
  }
  double counted() const {
    double sum = 0;
    const std::vector<Gauge> gauges = recorder_->gauges();
    for (const auto& [labels, value] : gauges[0].values) sum += value;
    return sum;
  }
  static std::vector<wire::PredictionLog> logs_in(const Path& path) {
    std::vector<wire::PredictionLog> logs;
    RecordReader reader(path);
    while (const auto bytes = reader.next()) {
      EXPECT_TRUE(
          logs.emplace_back().ParseFromArray(bytes->data(), static_cast<int>(bytes->size())));
    }
    return logs;
  }
  std::vector<Path> files() const { return glob(folder() / "m/requests-*.tfrecord"); }

  FakeService service_{};
  std::shared_ptr<RequestRecorder> recorder_{};
};

TEST_F(RequestRecorderTest, WritesRequestsAndAnswersAsTensorFlowServingDoes) {
  open(to_folder());
  ask(1);
  wait_until_seen(1);
  ask(5);
  close(2);
  ASSERT_THAT(files(), SizeIs(1));
  const auto logs = logs_in(files()[0]);
  ASSERT_THAT(logs, SizeIs(2));
  const wire::PredictionLog& log = logs[1];
  EXPECT_EQ(log.log_metadata().model_spec().version().value(), 2);
  EXPECT_EQ(log.log_metadata().sampling_config().sampling_rate(), 1);
  EXPECT_GT(log.log_metadata().timestamp_secs(), 0);
  const auto& request = log.predict_log().request();
  EXPECT_EQ(request.model_spec().name(), "m");
  EXPECT_EQ(request.model_spec().signature_name(), "serving_default");
  EXPECT_FALSE(request.model_spec().has_version());
  EXPECT_EQ(tensor_of(request.inputs().at("x"), "x", 100), TensorValue::vector<float>({5}));
  EXPECT_EQ(tensor_of(log.predict_log().response().outputs().at("y"), "y", 100),
            TensorValue::vector<float>({7}));
}

TEST_F(RequestRecorderTest, RecordsItsShareOfTheRequests) {
  RecordingOptions options = to_folder();
  options.share = 0.25;
  open(options);
  const ModelVersionPtr version = service_.store().find("m");
  int wanted = 0;
  for (int i = 0; i < 10'000; ++i) wanted += recorder_->wants(*version, "serving_default") ? 1 : 0;
  // Seven standard deviations.
  EXPECT_NEAR(wanted, 2500, 300);
}

TEST_F(RequestRecorderTest, BeginsNewFilesAndRemovesTheOldestWithinItsLimits) {
  RecordingOptions options = to_folder();
  options.file_bytes = 500;
  options.most_bytes = 1500;
  open(options);
  // Recordings from before count, and go first; other files stay.
  std::filesystem::create_directories(folder() / "m");
  write_file_atomically(folder() / "m/requests-20000101T000000-1-000000.tfrecord",
                        std::string(900, 'x'));
  write_file_atomically(folder() / "m/notes.txt", std::string(5000, 'x'));
  for (int i = 0; i < 39; ++i) ask(static_cast<float>(i));
  wait_until_seen(39);
  ask(39);
  close(40);
  std::uint64_t bytes = 0;
  for (const Path& file : files()) {
    bytes += std::filesystem::file_size(file);
    EXPECT_LE(std::filesystem::file_size(file), options.file_bytes);
    EXPECT_EQ(file.string().find("20000101"), std::string::npos);
  }
  EXPECT_LE(bytes, options.most_bytes);
  EXPECT_GT(files().size(), 1U);
  const auto last = logs_in(files().back());
  EXPECT_EQ(tensor_of(last.back().predict_log().request().inputs().at("x"), "x", 100),
            TensorValue::vector<float>({39}));
  EXPECT_TRUE(std::filesystem::exists(folder() / "m/notes.txt"));
}

TEST_F(RequestRecorderTest, DropsAndCountsWhatThereIsNoRoomFor) {
  RecordingOptions options = to_folder();
  options.most_waiting_bytes = 1;
  open(options);
  ask(1);
  close(1);
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_EQ(recorder_->gauges()[0].values[1],
            std::pair(std::string("model=\"m\",result=\"dropped\""), 1.0));
}

TEST_F(RequestRecorderTest, CountsWhatCannotBeWrittenAndAnswersAllTheSame) {
  open(to_folder());
  write_file_atomically(folder(), "a file where the folder is to be");
  ask(1);
  close(1);
  EXPECT_EQ(recorder_->gauges()[0].values[2],
            std::pair(std::string("model=\"m\",result=\"failed\""), 1.0));
}

TEST_F(RequestRecorderTest, AVersionWithoutAWarmUpFileGetsOneOfItsRequests) {
  RecordingOptions options = to_folder();
  options.warm_up_requests = 2;
  open(options);
  const ModelVersionPtr version = service_.store().find("m");
  recorder_->note_version(*version, version_folder());
  for (const float x : {3.0F, 3.0F, 4.0F, 5.0F}) ask(x);
  close(4);
  const auto logs = logs_in(warm_up_file(version_folder()));
  ASSERT_THAT(logs, SizeIs(2));  // Each request once.
  EXPECT_FALSE(logs[0].predict_log().has_response());
  warm_up(*version, version_folder(), 1);
}

TEST_F(RequestRecorderTest, AWarmUpFileThatIsThereStays) {
  open({.share = 1, .warm_up_requests = 1});
  std::filesystem::create_directories(warm_up_file(version_folder()).parent_path());
  write_file_atomically(warm_up_file(version_folder()), "");
  const ModelVersionPtr version = service_.store().find("m");
  recorder_->note_version(*version, version_folder());
  EXPECT_FALSE(recorder_->wants(*version, "serving_default"));
}

TEST_F(RequestRecorderTest, RefusesOptionsThatCannotBe) {
  for (const double share : {0.0, -1.0, 1.5}) {
    EXPECT_THROW(RequestRecorder({.share = share}), InvalidArgument) << share;
  }
  EXPECT_THROW(RequestRecorder({.most_bytes = 10, .file_bytes = 11}), InvalidArgument);
  EXPECT_THROW(RequestRecorder({.warm_up_requests = 1001}), InvalidArgument);
}

}  // namespace
}  // namespace muster::serving
