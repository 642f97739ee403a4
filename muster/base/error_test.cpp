#include "muster/base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace muster {
namespace {

template <typename Throw>
Description described(Throw&& thrower) {
  try {
    thrower();
  } catch (...) {
    return describe(std::current_exception());
  }
  return describe(nullptr);
}

TEST(Error, PutsContextsBeforeTheMessageOutermostFirst) {
  InvalidArgument error("bad number: {}", "x1");
  error.add_context("line 3");
  error.add_context("reading train.csv");
  EXPECT_STREQ(error.what(), "reading train.csv: line 3: bad number: x1");
  EXPECT_EQ(error.message(), "bad number: x1");
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
}

TEST(Error, KeepsGrpcNumbers) {
  EXPECT_EQ(static_cast<int>(ErrorCode::kNotFound), 5);
  EXPECT_EQ(static_cast<int>(ErrorCode::kUnavailable), 14);
  EXPECT_EQ(static_cast<int>(ErrorCode::kDataLoss), 15);
  EXPECT_EQ(name_of(ErrorCode::kDataLoss), "DATA_LOSS");
}

TEST(ThrowErrno, TranslatesByMeaning) {
  EXPECT_THROW(throw_errno(ENOENT, "opening x"), NotFound);
  EXPECT_THROW(throw_errno(ENOSPC, "writing x"), ResourceExhausted);
  EXPECT_THROW(throw_errno(EACCES, "opening x"), PermissionDenied);
  EXPECT_THROW(throw_errno(ECONNREFUSED, "connecting"), Unavailable);
  try {
    throw_errno(ENOENT, "opening runs/checkpoint");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "opening runs/checkpoint: No such file or directory");
  }
}

TEST(Describe, GivesExitCodesByKind) {
  EXPECT_EQ(described([] {}).exit_code, 0);
  EXPECT_EQ(described([] { throw DataLoss("x"); }).exit_code, 1);
  EXPECT_EQ(described([] { throw InvalidArgument("x"); }).exit_code, 1);
  EXPECT_EQ(described([] { throw UsageError("x"); }).exit_code, 2);
  EXPECT_EQ(described([] { throw Unavailable("ps:0 is gone"); }).exit_code, 75);
}

TEST(Describe, KnowsForeignExceptions) {
  EXPECT_EQ(described([] { throw std::bad_alloc(); }).code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(described([] { throw std::system_error(ENOENT, std::generic_category()); }).code,
            ErrorCode::kNotFound);
  const auto torch_like = described([] {
    throw std::runtime_error("size mismatch\nException raised from addmm at a.cpp:7 (most recent)");
  });
  EXPECT_EQ(torch_like.code, ErrorCode::kInternal);
  EXPECT_EQ(torch_like.message, "size mismatch");
  EXPECT_EQ(described([] { throw 7; }).code, ErrorCode::kUnknown);
}

}  // namespace
}  // namespace muster
