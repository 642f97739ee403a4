#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "muster/platform/net/socket_internal.h"
#include "muster/platform/net/tls.h"

struct bio_st;
struct ssl_st;

namespace muster::net {

/// A socket whose bytes travel as TLS 1.3. The handshake is OpenSSL's and part of the first sends
/// and receives, which would block until it is over; records after it are ours
/// (tls_records_internal.h). One thread may send while another receives.
class TlsSocket final : public Socket {
 public:
  enum class Side { kClient, kServer };

  /// Takes the descriptor over.
  TlsSocket(Socket& connected, const TlsContext& context, Side side);
  ~TlsSocket() override;

  Moved send(std::span<const iovec> pieces) override { return send(pieces, /*waits=*/false); }
  Moved send_soon(std::span<const iovec> pieces) override { return send(pieces, /*waits=*/true); }
  Moved receive(std::span<const iovec> pieces) override { return receive(pieces, false); }
  Moved receive_soon(std::span<const iovec> pieces) override { return receive(pieces, true); }
  bool wait(short events, const Deadline& deadline, const WaitReason& reason) override;
  bool has_unsent() const override { return has_unsent_; }
  bool has_ahead() const override;
  std::string failure() const override;
  bool is_wrong_key() const override { return is_wrong_key_; }

 private:
  struct Bytes;

  Moved send(std::span<const iovec> pieces, bool waits);
  Moved receive(std::span<const iovec> pieces, bool waits);
  bool shake_hands();
  void open();
  std::size_t encrypt(std::span<const iovec> pieces);
  std::size_t decrypt(std::span<const iovec> pieces);
  std::size_t decrypt_into(std::span<std::byte> room);
  void collect();
  Moved flush(bool waits);
  Moved fill(bool waits);
  void fail(int result);
  void fail_records(std::string why, bool is_wrong_key);

  /// Guards the handshake's session, what it has encrypted, and why anything failed.
  mutable std::mutex mutex_;
  const Side side_;
  std::unique_ptr<Bytes> bytes_;
  // Until the handshake is over.
  ssl_st* session_ = nullptr;
  std::atomic<bool> is_open_ = false;
  std::string failure_;
  std::atomic<bool> has_failed_ = false;
  std::atomic<bool> is_wrong_key_ = false;
  std::atomic<bool> has_unsent_ = false;
};

}  // namespace muster::net
