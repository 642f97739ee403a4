#include "muster/serving/protocols/cloud/cloud_error_internal.h"

#include <nlohmann/json.hpp>

namespace muster::serving {

HttpResponse cloud_error(ErrorCode code, std::string_view text) {
  const int status = http_status_of(code);
  const nlohmann::ordered_json body{
      {"error", {{"code", status}, {"message", text}, {"status", muster::name_of(code)}}}};
  return {.status = status,
          .body = body.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

}  // namespace muster::serving
