#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace muster::serving {

/// A descriptor that is closed at its end; none where it is negative.
class OwnedDescriptor {
 public:
  explicit OwnedDescriptor(int number = -1) : number_(number) {}
  ~OwnedDescriptor();
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : number_(other.release()) {}
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// A socket that listens and does not block. An empty address is all addresses of this host, port 0
/// any that is free. Throws Unavailable when the port is taken, InvalidArgument for an address that
/// is none.
OwnedDescriptor listen_on_port(const std::string& address, std::uint16_t port);
/// The same for a Unix socket, in place of one that an earlier server has left.
OwnedDescriptor listen_on_path(const std::string& path);

std::uint16_t port_of(const OwnedDescriptor& socket);

/// Throws as a server does that cannot listen there now: for programs with much to do before they
/// open a port.
void check_port(const std::string& address, std::uint16_t port);

}  // namespace muster::serving
