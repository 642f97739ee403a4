#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace muster::serving {

/// Certificates as PEM texts.
struct TlsOptions {
  std::string certificate{};
  std::string key{};
  /// The CA that signs the certificates of clients.
  std::string client_ca{};
  /// Refuses clients without such a certificate.
  bool require_client = false;

  bool enabled() const { return !certificate.empty() || !key.empty(); }
};

}  // namespace muster::serving
