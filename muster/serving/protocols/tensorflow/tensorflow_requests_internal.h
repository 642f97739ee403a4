#pragma once

#include <exception>
#include <future>
#include <string>
#include <string_view>
#include <utility>

#include "muster/serving/protocols/tensorflow/tensorflow_calls_internal.h"

namespace muster::serving {

/// For tests: what a newer client may send, field 100 with the number 1. Only protobuf's messages
/// pass over it.
inline constexpr const char* kUnknownField = "\xA0\x06\x01";

/// For tests: waits for the answer to a call; throws its failure.
inline std::string answer_of(void (*start)(Service&, std::string_view, const Caller&,
                                           const TensorFlowCallOptions&, AnswerDone),
                             Service& service, std::string_view request,
                             const TensorFlowCallOptions& options = {}) {
  std::promise<std::string> bytes;
  start(service, request, {}, options, [&](std::string answer, const std::exception_ptr& failure) {
    failure ? bytes.set_exception(failure) : bytes.set_value(std::move(answer));
  });
  return bytes.get_future().get();
}

}  // namespace muster::serving
