#pragma once

#include <string_view>

#include "muster/base/sha256.h"

namespace muster::net {

/// HMAC-SHA256 (RFC 2104): a hash of `message` that cannot be made or checked without `key`.
Sha256::Digest hmac_sha256(std::string_view key, std::string_view message);

/// Compares in a time that does not tell where they differ.
bool same_digest(const Sha256::Digest& a, const Sha256::Digest& b);

}  // namespace muster::net
