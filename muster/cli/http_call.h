#pragma once

#include <string>

namespace muster::cli {

struct HttpReply {
  int status = 0;
  std::string body{};
};

/// Asks a server of muster at "HOST:PORT", with the token of MUSTER_TOKEN if there is one; a body
/// is JSON. Throws UsageError for an invalid address, Unavailable without an answer in time.
HttpReply http_call(const std::string& server, const std::string& method, const std::string& path,
                    const std::string& body);

/// A part of a path, with everything spelt out that is no letter or digit.
std::string path_part(const std::string& text);

}  // namespace muster::cli
