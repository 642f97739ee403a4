#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace muster::bench {

/// A gRPC server as gRPC's own examples have it, synchronous, whose only method takes bytes and
/// answers with bytes.
class GrpcEcho {
 public:
  explicit GrpcEcho(std::string answer);
  ~GrpcEcho();
  std::string address() const;
  /// "/bench.Echo/Call".
  static const char* method();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// An HTTP server as Beast's own examples have it, asynchronous, that answers any request with one
/// body.
class BeastEcho {
 public:
  BeastEcho(std::string answer, int threads);
  ~BeastEcho();
  std::string address() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::bench
