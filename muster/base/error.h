#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

/// Kind of failure. The numbers are gRPC's, so an error crosses that edge unchanged.
enum class ErrorCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

/// The code in words, as gRPC spells it: "DATA_LOSS".
std::string_view name_of(ErrorCode code);

/// Every failure that muster reports. Catch it to add context on the way up, or at an edge of the
/// program to translate it; decide by `code()`, never by the text.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string_view message);

  ErrorCode code() const noexcept { return code_; }
  /// One sentence that says what was wrong, without context.
  const std::string& message() const noexcept { return message_; }
  /// The contexts, outermost first, then the message: "reading train.csv: line 3: bad number".
  const char* what() const noexcept override { return full_.c_str(); }

  /// Says what was being done when this happened. Outer callers call it later.
  void add_context(std::string_view doing);

 private:
  ErrorCode code_;
  std::string message_;
  std::string full_;
};

/// An Error of one code, built from a format string: `throw NotFound("no such file: {}", path)`.
template <ErrorCode kCode>
class ErrorOf : public Error {
 public:
  template <typename... Args>
  explicit ErrorOf(fmt::format_string<Args...> format, Args&&... args)
      : Error(kCode, fmt::format(format, std::forward<Args>(args)...)) {}
};

using Cancelled = ErrorOf<ErrorCode::kCancelled>;
using InvalidArgument = ErrorOf<ErrorCode::kInvalidArgument>;
using DeadlineExceeded = ErrorOf<ErrorCode::kDeadlineExceeded>;
using NotFound = ErrorOf<ErrorCode::kNotFound>;
using AlreadyExists = ErrorOf<ErrorCode::kAlreadyExists>;
using PermissionDenied = ErrorOf<ErrorCode::kPermissionDenied>;
using ResourceExhausted = ErrorOf<ErrorCode::kResourceExhausted>;
using FailedPrecondition = ErrorOf<ErrorCode::kFailedPrecondition>;
using Aborted = ErrorOf<ErrorCode::kAborted>;
using OutOfRange = ErrorOf<ErrorCode::kOutOfRange>;
using Unimplemented = ErrorOf<ErrorCode::kUnimplemented>;
using Internal = ErrorOf<ErrorCode::kInternal>;
using Unavailable = ErrorOf<ErrorCode::kUnavailable>;
using DataLoss = ErrorOf<ErrorCode::kDataLoss>;

/// The command line or environment is wrong, and nothing was done: programs exit with 2.
class UsageError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// Throws the Error that fits a failed system call: ENOENT becomes NotFound, ENOSPC
/// ResourceExhausted. `doing` names the call's object: "opening runs/census/checkpoint".
[[noreturn]] void throw_errno(int error_number, std::string_view doing);

/// Description of an exception at an edge of the program.
struct Description {
  ErrorCode code = ErrorCode::kUnknown;
  std::string message;
  /// Exit status of a process that ends with this error: 1 failure, 2 usage error, 75 temporary
  /// failure, 128 + n stopped by signal n.
  int exit_code = 1;
};

/// Turns any exception, ours, libtorch's or the library's, into a code and a message. Only edges
/// call it.
Description describe(const std::exception_ptr& exception);

}  // namespace muster
