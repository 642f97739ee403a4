#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "muster/base/error.h"
#include "muster/serving/protocols/rest_api.h"

namespace muster::serving {

struct ModelPath;

/// A request on its way through a protocol's paths.
struct RestContext {
  Service& service;
  const RestOptions& options;
  HttpRequest& request;
  /// Path of the target, without the query.
  std::string_view path;

  Deadline deadline() const;
  void check(Role role) const;
  /// The version that the path and the caller's key ask for.
  VersionChoice choice(const ModelPath& target) const;
};

/// A prediction that is asked for, in the words of a protocol: what Service::start() wants of an
/// edge. It refers to the request that it was made of.
class RestPrediction {
 public:
  explicit RestPrediction(Call call) : call_(std::move(call)) {}
  virtual ~RestPrediction() = default;

  /// Takes the call out; once.
  Call take_call() { return std::move(call_); }
  virtual void prepare(Call& call) = 0;
  virtual void no_signature() {}
  virtual Tensors inputs(const ModelVersion& version, const graph::SignatureDef& signature) = 0;
  virtual HttpResponse answer(const ModelVersion& version, BatchAnswer result) = 0;
  /// The error that the client is told of a failure.
  virtual Description failure(const std::exception_ptr& failure) const {
    return muster::describe(failure);
  }

 private:
  Call call_;
};

/// The answer of a path, or the prediction that the answer is made of.
using RestResult = std::variant<HttpResponse, std::unique_ptr<RestPrediction>>;

/// A path of the form MODEL[/versions/V or /labels/L], followed by :METHOD or /METHOD or nothing.
struct ModelPath {
  std::string model{};
  VersionChoice version{};
  /// The version as the path has it, for protocols where it is a name.
  std::string version_text{};
  /// ':', '/' or 0 when there is no method.
  char separator = 0;
  std::string method{};
};
/// Reads such a path, whose names may be percent-encoded. Nothing for a text of another form;
/// throws InvalidArgument for a wrong encoding and for a version of digits that is no 64-bit
/// number.
std::optional<ModelPath> parse_model_path(std::string_view text, bool numeric_versions);

HttpResponse json_answer(std::string body);

/// Says which version has answered: bodies of TensorFlow Serving's answers do not.
inline constexpr const char* kVersionHeader = "X-Muster-Version";

}  // namespace muster::serving
