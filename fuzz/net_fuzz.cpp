// The bytes that a peer sends: both sides' handshakes, and the prefix of a frame.
#include <cstring>
#include <span>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/platform/net/frame_internal.h"
#include "muster/platform/net/handshake_internal.h"

namespace {

const muster::net::Identity kSelf{.task = "ps:0", .run_id = "run", .secret = "secret"};

/// As a socket would: never more than are wanted.
template <typename Side>
void feed(Side& side, std::string_view bytes) {
  while (!bytes.empty() && side.wanted() > 0) {
    const auto part = bytes.substr(0, side.wanted());
    bytes.remove_prefix(part.size());
    side.take(part);
  }
  // No bytes that were not made with the secret are a proof of it.
  if (side.proved()) __builtin_trap();
}

void decode(std::string_view bytes) {
  if (bytes.size() < muster::net::kFramePrefixBytes) return;
  const auto prefix = std::as_bytes(std::span(bytes)).first<muster::net::kFramePrefixBytes>();
  const auto again = muster::net::encode(muster::net::decode_frame_prefix(prefix));
  if (std::memcmp(again.data(), prefix.data(), again.size()) != 0) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  muster::net::ServerHandshake server(kSelf);
  feed(server, bytes);
  muster::net::ClientHandshake client(kSelf, "test", "");
  feed(client, bytes);
  try {
    decode(bytes);
  } catch (const muster::Error&) {
  }
  return 0;
}

namespace muster::fuzz {

std::vector<std::string> seeds() {
  net::ClientHandshake client(kSelf, "push", "ps:0");
  net::ServerHandshake server(kSelf);
  std::string sent = client.hello();
  std::string received;
  std::string to_server = client.hello();
  while (!to_server.empty()) {
    std::string to_client;
    for (const char byte : to_server) to_client += server.take({&byte, 1});
    received += to_client;
    to_server.clear();
    for (const char byte : to_client) to_server += client.take({&byte, 1});
    sent += to_server;
  }
  // The nonce and the proofs of it are the same on every run.
  const std::string drawn(32, 'n');
  sent.replace(12, drawn.size(), drawn).replace(56, drawn.size(), drawn);
  received.replace(12, drawn.size(), drawn).replace(57, drawn.size(), drawn);
  const auto prefix = net::encode({.type = 7, .header_bytes = 300, .body_bytes = 1 << 20});
  return {sent, received, "GET / HTTP/1.1\r\n\r\n",
          std::string(reinterpret_cast<const char*>(prefix.data()), prefix.size())};
}

MemoryBound memory_bound() { return {}; }

}  // namespace muster::fuzz
