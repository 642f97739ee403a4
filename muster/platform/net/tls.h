#pragma once

#include <memory>
#include <string>

#include "muster/base/file_system.h"

namespace muster::net {

/// Files of TLS, as PEM. Both sides show a certificate that the authority has signed.
struct TlsFiles {
  Path certificate{};
  Path key{};
  Path authority{};
};

/// Configuration of a task's encryption: TLS 1.3, both sides proved. Immutable; any thread.
class TlsContext {
 public:
  /// The key is derived from the run's secret (a pre-shared key, with Diffie-Hellman, so that
  /// learning the secret later does not reveal recorded traffic). Throws InvalidArgument for an
  /// empty secret.
  static std::shared_ptr<const TlsContext> from_secret(const std::string& secret);
  /// Throws InvalidArgument, naming the file and what is wrong with it.
  static std::shared_ptr<const TlsContext> from_files(const TlsFiles& files);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsSocket;
  struct Impl;
  explicit TlsContext(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::net
