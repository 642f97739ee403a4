#include "muster/nn/device/devices.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "muster/base/error.h"
#include "muster/nn/device/gpu.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(ResolveDevices, MakesATowerOfEveryName) {
  EXPECT_THAT(resolve_devices({"cpu", "cpu"}), ElementsAre(c10::kCPU, c10::kCPU));
}

TEST(ResolveDevices, TakesEveryGpuOrTheCpuWithoutNames) {
  if (gpu_count() == 0) {
    EXPECT_THAT(resolve_devices({}), ElementsAre(c10::kCPU));
  } else {
    EXPECT_THAT(resolve_devices({}), SizeIs(static_cast<std::size_t>(gpu_count())));
  }
}

TEST(ResolveDevices, DoesNotTakeTheCpuForAGpuThatTheProcessWasGiven) {
  if (gpu_count() > 0) GTEST_SKIP() << "there is a GPU";
  ::setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  EXPECT_THAT(testing::message_of([] { resolve_devices({}); }),
              AllOf(HasSubstr("this process was given the GPU 0"), HasSubstr("--gpus none")));
  EXPECT_THAT(resolve_devices({"cpu"}), ElementsAre(c10::kCPU));
  for (const char* none : {"", "-1"}) {
    ::setenv("CUDA_VISIBLE_DEVICES", none, 1);
    EXPECT_THAT(resolve_devices({}), ElementsAre(c10::kCPU));
  }
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(ResolveDevices, SaysWhatIsThereWhenADeviceIsNot) {
  EXPECT_THAT(testing::message_of([] {
                resolve_devices({"cpu", "cuda:99"});
              }),
              AllOf(HasSubstr("\"cuda:99\", which is not there"), HasSubstr("there are: cpu")));
  EXPECT_THAT(testing::message_of([] { resolve_devices({"gpu:0"}); }),
              HasSubstr("\"gpu:0\", which is no device; there are: cpu"));
  EXPECT_THAT(testing::message_of([] { resolve_devices({"tpu"}, "--device"); }),
              ::testing::StartsWith("--device has \"tpu\", which is no device"));
  // A device that libtorch knows and we do not.
  EXPECT_THROW(resolve_devices({"meta"}), InvalidArgument);
}

TEST(DescribeDevices, NamesThemInOrder) {
  const auto devices = resolve_devices({"cpu", "cpu"});
  EXPECT_EQ(describe(devices), "cpu, cpu");
}

TEST(StreamScope, IsNothingOnTheCpu) {
  const StreamScope scope(c10::kCPU);
  StreamHandle(c10::kCPU).use();
}

}  // namespace
}  // namespace muster
