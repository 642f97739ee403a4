#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/console/api_request.h"

namespace muster::console {

/// Reply of a server of models.
struct ServerReply {
  int status = 0;
  std::string body{};
};

struct ModelsOptions {
  /// "HOST:PORT" each.
  std::vector<std::string> servers{};
  /// Asks one of them. Throws Unavailable when it does not answer.
  std::function<ServerReply(const std::string& server, const std::string& method,
                            const std::string& path, const std::string& body)>
      call{};
};

/// Requests of pages to servers of models, by TensorFlow Serving's and the Open Inference
/// Protocol's calls. Servers are named by their place in the list: no request leads elsewhere.
///   GET models                                  servers, models, versions, counts and times
///   GET models/SERVER/nodes?since=SECONDS       nodes behind it and their history; {} where none
///   are GET models/SERVER/MODEL/VERSION             signatures POST
///   models/SERVER/MODEL/VERSION/predict    the body is handed on, and so is the answer POST
///   models/SERVER/MODEL/VERSION/default    makes it the default of a folder of models
class ModelsApi {
 public:
  explicit ModelsApi(ModelsOptions options) : options_(std::move(options)) {}

  serving::HttpResponse list() const;
  serving::HttpResponse nodes(const ApiRequest& request) const;
  serving::HttpResponse metadata(const ApiRequest& request) const;
  serving::HttpResponse predict(const ApiRequest& request) const;
  serving::HttpResponse set_default(const ApiRequest& request) const;

 private:
  const std::string& server_of(const ApiRequest& request) const;
  std::string name_of_version(const std::string& server, const std::string& model,
                              const std::string& version) const;

  ModelsOptions options_;
};

}  // namespace muster::console
