#pragma once

#include <string>

namespace muster::stores {

/// Posts JSON to an http or https URL, with a few retries within half a minute. Throws Unavailable
/// for an answer that is no success; nothing that is thrown or logged has what may be secret of the
/// URL.
void post_json(const std::string& url, const std::string& body);

}  // namespace muster::stores
