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

  /// Returns the one HTML file for "/" and the pages' own addresses, and the file NAME for
  /// "/web/NAME". Throws NotFound for any other path.
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
