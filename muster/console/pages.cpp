#include "muster/console/pages.h"

#include "muster/base/error.h"
#include "muster/base/sha256.h"
#include "muster/console/web_files.h"

namespace muster::console {
namespace {

constexpr std::string_view kIndex = "index.html";
constexpr std::string_view kFolder = "/web/";
constexpr std::size_t kTagLetters = 32;

std::string type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "application/octet-stream";
}

// Names that files have, so nothing that a request says becomes a path.
std::string_view name_of(std::string_view path) {
  if (path.starts_with(kFolder)) return path.substr(kFolder.size());
  for (const std::string_view page :
       {"/", "/runs", "/run", "/jobs", "/cluster", "/studies", "/models", "/try"}) {
    if (path == page) return kIndex;
  }
  return {};
}

}  // namespace

Pages::Pages() {
  for (const WebFile& file : web_files()) {
    files_.emplace(file.name,
                   File{.bytes = file.bytes,
                        .compressed = serving::gzipped(file.bytes),
                        .type = type_of(file.name),
                        .tag = '"' + sha256_hex(file.bytes).substr(0, kTagLetters) + '"'});
  }
}

serving::HttpResponse Pages::answer(const serving::HttpRequest& request,
                                    std::string_view path) const {
  const auto found = files_.find(name_of(path));
  if (found == files_.end()) throw NotFound("there is no such page");
  const File& file = found->second;
  serving::HttpResponse answer{
      .content_type = file.type,
      .headers = {{"ETag", file.tag}, {"Cache-Control", "no-cache"}, {"Vary", "Accept-Encoding"}}};
  if (request.header("If-None-Match") == file.tag) {
    answer.status = 304;
    return answer;
  }
  if (serving::accepts(request.header("Accept-Encoding"), "gzip")) {
    answer.body = file.compressed;
    answer.headers.emplace_back("Content-Encoding", "gzip");
  } else {
    answer.body = file.bytes;
  }
  return answer;
}

}  // namespace muster::console
