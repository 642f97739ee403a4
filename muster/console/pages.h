#pragma once

#include <map>
#include <string>
#include <string_view>

#include "muster/serving/http/http_message.h"

namespace muster::console {

/// The files of the pages, as answers: compressed once, named by what is in them, so that a browser
/// asks for each once.
class Pages {
 public:
  Pages();

  /// Of "/" and the pages' own addresses: the one HTML file; of "/web/NAME": that file. Throws
  /// NotFound for what there is not.
  serving::HttpResponse answer(const serving::HttpRequest& request, std::string_view path) const;

 private:
  struct File {
    std::string_view bytes{};
    std::string compressed{};
    std::string type{};
    std::string tag{};
  };

  std::map<std::string, File, std::less<>> files_;
};

}  // namespace muster::console
