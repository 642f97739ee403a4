#include "muster/base/error.h"

#include <cerrno>
#include <filesystem>
#include <ios>
#include <new>
#include <string>
#include <system_error>

#include "muster/base/printable.h"
#include "muster/base/program.h"
#include "muster/base/signals.h"

namespace muster {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitMisused = 2;

ErrorCode code_of_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return ErrorCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EFBIG:
      return ErrorCode::kResourceExhausted;
    case EINVAL:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
      return ErrorCode::kInvalidArgument;
    case ETIMEDOUT:
      return ErrorCode::kDeadlineExceeded;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EPIPE:
      return ErrorCode::kUnavailable;
    case EIO:
      return ErrorCode::kDataLoss;
    default:
      return ErrorCode::kUnknown;
  }
}

int exit_code_of(ErrorCode code) {
  return code == ErrorCode::kUnavailable ? kExitTryAgain : kExitFailed;
}

// libtorch's exceptions carry a C++ stack trace after their first lines; users need the sentence.
std::string without_backtrace(std::string text) {
  const auto trace = text.find("\nException raised from");
  if (trace != std::string::npos) text.resize(trace);
  return text;
}

}  // namespace

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk:
      return "OK";
    case ErrorCode::kCancelled:
      return "CANCELLED";
    case ErrorCode::kUnknown:
      return "UNKNOWN";
    case ErrorCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case ErrorCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case ErrorCode::kNotFound:
      return "NOT_FOUND";
    case ErrorCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case ErrorCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case ErrorCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case ErrorCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case ErrorCode::kAborted:
      return "ABORTED";
    case ErrorCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case ErrorCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case ErrorCode::kInternal:
      return "INTERNAL";
    case ErrorCode::kUnavailable:
      return "UNAVAILABLE";
    case ErrorCode::kDataLoss:
      return "DATA_LOSS";
    case ErrorCode::kUnauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

Error::Error(ErrorCode code, std::string_view message)
    : code_(code), message_(printable(message)), full_(message_) {}

void Error::add_context(std::string_view doing) {
  full_ = fmt::format("{}: {}", printable(doing), full_);
}

void throw_errno(int error_number, std::string_view doing) {
  const std::string message =
      fmt::format("{}: {}", doing, std::generic_category().message(error_number));
  switch (code_of_errno(error_number)) {
    case ErrorCode::kNotFound:
      throw NotFound("{}", message);
    case ErrorCode::kAlreadyExists:
      throw AlreadyExists("{}", message);
    case ErrorCode::kPermissionDenied:
      throw PermissionDenied("{}", message);
    case ErrorCode::kResourceExhausted:
      throw ResourceExhausted("{}", message);
    case ErrorCode::kInvalidArgument:
      throw InvalidArgument("{}", message);
    case ErrorCode::kDeadlineExceeded:
      throw DeadlineExceeded("{}", message);
    case ErrorCode::kUnavailable:
      throw Unavailable("{}", message);
    case ErrorCode::kDataLoss:
      throw DataLoss("{}", message);
    default:
      throw Error(ErrorCode::kUnknown, message);
  }
}

Description describe(const std::exception_ptr& exception) {
  if (!exception) return {ErrorCode::kOk, "", 0};
  try {
    std::rethrow_exception(exception);
  } catch (const Interrupted& error) {
    return {error.code(), error.what(), 128 + error.signal()};
  } catch (const UsageError& error) {
    return {error.code(), error.what(), kExitMisused};
  } catch (const Error& error) {
    return {error.code(), error.what(), exit_code_of(error.code())};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kResourceExhausted, "out of memory", kExitFailed};
  } catch (const std::system_error& error) {
    const bool is_errno = error.code().category() == std::generic_category() ||
                          error.code().category() == std::system_category();
    const ErrorCode code = is_errno ? code_of_errno(error.code().value()) : ErrorCode::kUnknown;
    return {code, printable(error.what()), exit_code_of(code)};
  } catch (const std::exception& error) {
    return {ErrorCode::kInternal, printable(without_backtrace(error.what())), kExitFailed};
  } catch (...) {
    return {ErrorCode::kUnknown, "an exception of an unknown type", kExitFailed};
  }
}

}  // namespace muster
