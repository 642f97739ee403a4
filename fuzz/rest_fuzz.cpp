// Requests of REST, of all protocols that a server speaks: a line "METHOD TARGET", lines of
// headers, an empty line and a body, asked of a server with one small model.

#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/serving/core/service_fake.h"
#include "muster/serving/protocols/rest_api.h"

namespace {

using namespace muster;
using namespace muster::serving;

// Cuts a line off the front of `text`, without its end.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

HttpRequest request_of(std::string_view text) {
  HttpRequest request;
  const std::string_view first = take_line(text);
  const std::size_t space = std::min(first.find(' '), first.size());
  request.method = first.substr(0, space);
  request.target = first.substr(std::min(space + 1, first.size()));
  for (std::string_view line = take_line(text); !line.empty(); line = take_line(text)) {
    const std::size_t colon = std::min(line.find(':'), line.size());
    request.headers.emplace_back(line.substr(0, colon),
                                 line.substr(std::min(colon + 1, line.size())));
  }
  request.body = text;
  request.is_from_this_host = true;
  return request;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Repository calls are refused: a model that is gone answers nothing more.
  static RestApi& api =
      *new RestApi((new FakeService)->service(), {.cors = true, .repository_control = false});
  const HttpResponse answer = api.handle(request_of({reinterpret_cast<const char*>(data), size}));
  // Whatever was asked, the answer is one of HTTP, and no fault of the server.
  if (answer.status < 200 || answer.status > 599 || answer.status == 500) __builtin_trap();
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  const std::string gzip = gzipped(R"({"instances": [1, 2, 3]})");
  std::string binary =
      R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "parameters": )"
      R"({"binary_data_size": 8}}], "outputs": [{"name": "y", "parameters": {"binary_data": true}}]})";
  const std::string header_bytes = std::to_string(binary.size());
  binary += std::string("\0\0\x80\x3f\0\0\0\x40", 8);
  return {
      "GET /v1/models/m\n\n",
      "GET /v1/models/m/versions/1/metadata\n\n",
      "POST /v1/models/m:predict\n\n{\"instances\": [1, 2.5, -3e2]}",
      "POST /v1/models/m/labels/stable:predict\n\n{\"inputs\": {\"x\": [1]}}",
      "POST /v1/models/m:predict\n\n{\"signature_name\": \"two\", \"instances\": [{\"x\": 1, "
      "\"text\": {\"b64\": "
      "\"/w==\"}}]}",
      "POST /v1/models/m:classify\nAccept-Encoding: gzip\n\n{\"signature_name\": \"classify\", "
      "\"context\": {\"b\": "
      "\"c\"}, \"examples\": [{\"a\": [1.5, 2], \"w\": \"word\"}]}",
      "POST /v1/models/m:regress\n\n{\"signature_name\": \"regress\", \"examples\": [{}, {\"n\": "
      "3}]}",
      "POST /v1/models/m:predict\nContent-Encoding: gzip\n\n" + gzip,
      "POST /v1/projects/p/models/m:predict\n\n{\"instances\": [1]}",
      "POST /v2/models/m/infer\n\n{\"id\": \"7\", \"inputs\": [{\"name\": \"x\", \"datatype\": "
      "\"FP32\", \"shape\": [2], "
      "\"data\": [1, 2]}]}",
      "POST /v2/models/m/versions/1/infer\nInference-Header-Content-Length: " + header_bytes +
          "\n\n" + binary,
      "GET /v2/models/m/config\n\n",
      "POST /v2/repository/index\n\n{\"ready\": true}",
      "GET /v2/health/ready\n\n",
      "GET /metrics\n\n",
      "OPTIONS /v1/models/m:predict\nOrigin: http://a\nAccess-Control-Request-Method: POST\n\n"};
}

// A body may be compressed 200 times, and a value of JSON takes more memory than its text. The
// pages of metrics grow with what was asked, and stay below the base.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = std::size_t{8} << 20, .bytes_per_input_byte = 200 * 64};
}
