#include "muster/serving/core/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "muster/base/semaphore.h"
#include "muster/serving/core/service_fake.h"

namespace muster::serving {
namespace {

using ::testing::ElementsAre;

class ServiceTest : public ::testing::Test {
 protected:
  // Starts a call for x = 1 and waits for its end; the failure's code, or kOk.
  ErrorCode start(Call call, Service::Prepare prepare = {}) {
    Semaphore done(0);
    ErrorCode code = ErrorCode::kOk;
    fake_.service().start(
        std::move(call), prepare,
        {.inputs =
             [](const ModelVersion&, const graph::SignatureDef&) {
               return Tensors{{"x", graph::TensorValue::vector<float>({1})}};
             },
         .answer = [&](const ModelVersion&,
                       BatchAnswer answer) { outputs_ = answer.outputs.at("y").values<float>(); }},
        [&](const std::exception_ptr& failure) {
          if (failure) code = muster::describe(failure).code;
          in_flight_at_the_end_ = fake_.service().in_flight();
          thread_ = std::this_thread::get_id();
          done.release();
        });
    done.acquire();
    return code;
  }

  FakeService fake_;
  std::vector<float> outputs_;
  std::int64_t in_flight_at_the_end_ = -1;
  std::thread::id thread_;
};

TEST_F(ServiceTest, AnswersACallThatNobodyWaitsFor) {
  EXPECT_EQ(start({.model = "m"}), ErrorCode::kOk);
  EXPECT_THAT(outputs_, ElementsAre(3));
  EXPECT_NE(thread_, std::this_thread::get_id());
  EXPECT_EQ(in_flight_at_the_end_, 0);
  const VersionCounts counts = fake_.service().statistics().counts("m", 2);
  EXPECT_EQ(counts.success, 1U);
  EXPECT_EQ(counts.rows, 1U);
}

TEST_F(ServiceTest, SaysAtOnceWhatFailsBeforeItIsComputed) {
  EXPECT_EQ(start({.model = "none"}), ErrorCode::kNotFound);
  EXPECT_EQ(thread_, std::this_thread::get_id());
  EXPECT_EQ(start({.model = "m", .signature = "none"}), ErrorCode::kNotFound);
  EXPECT_EQ(start({.model = "m"}, [](Call&) { throw InvalidArgument("no body"); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(start({.model = "m", .deadline = Deadline::after(std::chrono::seconds(-1))}),
            ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(fake_.service().statistics().counts("m", 2).failure, 3U);
  EXPECT_EQ(fake_.service().in_flight(), 0);
}

TEST_F(ServiceTest, SaysWhatTheModelRefuses) {
  EXPECT_EQ(start({.model = "m"}, [](Call& call) { call.signature = "two"; }),
            ErrorCode::kInternal);
  EXPECT_EQ(fake_.service().statistics().counts("m", 2).failure, 1U);
}

}  // namespace
}  // namespace muster::serving
