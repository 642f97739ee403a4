#include "muster/orchestration/process/captured_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster::process {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

CapturedProcess shell(const std::string& script) { return {.command = {"sh", "-c", script}}; }

TEST(CapturedProcess, KeepsWhatAProgramPrintsAndHowItEnds) {
  CapturedProcess process = shell("cat; echo why >&2; exit 3");
  // More than a pipe holds, read after what is printed.
  process.input = std::string(1'000'000, 'x');
  const CapturedOutput output = run_captured(process);
  EXPECT_EQ(output.status, 3);
  EXPECT_EQ(output.out, process.input);
  EXPECT_EQ(output.err, "why\n");
  EXPECT_EQ(run_captured(shell("kill -9 $$")).status, 137);
}

TEST(CapturedProcess, FailsWithoutAProgram) {
  EXPECT_THROW(run_captured({.command = {"no_such_program"}}), NotFound);
  EXPECT_THROW(run_captured({}), InvalidArgument);
}

TEST(CapturedProcess, EndsOneThatDoesNotEndOrPrintsTooMuch) {
  CapturedProcess slow = shell("sleep 1000 & wait");
  slow.timeout = std::chrono::milliseconds(100);
  EXPECT_THAT(message_of([&] { run_captured(slow); }), HasSubstr("did not end within 0.1 s"));
  CapturedProcess loud = shell("yes");
  loud.most_output_bytes = 1'000'000;
  EXPECT_THROW(run_captured(loud), ResourceExhausted);
}

}  // namespace
}  // namespace muster::process
