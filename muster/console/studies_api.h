#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/console/api_request.h"
#include "muster/serving/http/http_message.h"

namespace muster::console {

/// Requests of pages about studies:
///   GET studies            all below the folders with runs
///   GET study ?id=ID       one, with its trials
///   GET study.contour ?id=ID&x=NAME&y=NAME    the metric over two parameters, as a model has it
/// A study is looked up among those that were found: an id never becomes a path.
class StudiesApi {
 public:
  /// A folder that was found, its name, and what the names of runs in it begin with.
  struct Place {
    std::string id{};
    Path folder{};
    std::string runs{};
  };
  using Places = std::function<std::vector<Place>()>;

  explicit StudiesApi(Places places) : places_(std::move(places)) {}

  serving::HttpResponse list() const;
  /// Throws NotFound.
  serving::HttpResponse show(const std::string& id) const;
  /// Throws NotFound, InvalidArgument.
  serving::HttpResponse contour(const ApiRequest& request) const;
  /// Throws NotFound.
  Place find(const std::string& id) const;
  bool has(const std::string& id) const;

 private:
  std::vector<Place> studies() const;

  Places places_;
};

}  // namespace muster::console
