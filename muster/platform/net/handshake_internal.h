#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "muster/platform/net/identity.h"

/// How two tasks prove to each other that they belong to one run, as bytes in and bytes out,
/// without a socket. Six messages, each "MUSTER/7", a kind, a zero, the size of what follows
/// (u16):
///
///   client: hello      32 drawn bytes
///   server: challenge  32 drawn bytes
///   client: proof      HMAC-SHA256 with the secret of "muster client" and the two messages before
///   server: welcome    a verdict, HMAC-SHA256 of "muster server" and the same
///   client: names      task, run id, purpose, task that is wanted (or "")
///   server: admission  a verdict, task, run id
///
/// Both sides draw, so nothing recorded can be used again; the two words keep one side's answer
/// from being the other's; the client proves itself first, so who connects learns nothing to guess
/// from. No name of a run or a task is sent before both have proved themselves.
namespace muster::net {

/// Why a peer was not accepted. The first ones travel as a verdict.
enum class Refusal : std::uint8_t {
  kNone = 0,
  kWrongRun = 1,
  kWrongTask = 2,
  kWrongSecret = 3,
  kWrongCluster = 4,
  kOtherVersion,
  kHttp,
  kTls,
  kNoTls,
  kNoise,
  kSilence,
};

/// Collects the bytes of one handshake message after another.
class HandshakeReader {
 public:
  /// How many bytes the current message needs, as far as is known.
  std::size_t wanted() const;
  /// Takes wanted() bytes at most. What is no message of `kind` is named, as early as it shows.
  Refusal take(std::string_view bytes, std::uint8_t kind);
  bool complete() const { return wanted() == 0; }
  /// The complete message; the next one begins.
  std::string release();

 private:
  std::string received_;
};

/// The side that listens. Feed it what arrives, send what it answers.
class ServerHandshake {
 public:
  /// `admits` says which tasks belong to the cluster; empty: all do.
  explicit ServerHandshake(const Identity& self, const Admission& admits = {});

  /// How many bytes to read next at most: never more than belong to the handshake. 0 when it is
  /// over.
  std::size_t wanted() const;
  /// Takes the next bytes, wanted() of them at most; gives those to send, if any.
  std::string take(std::string_view bytes);

  bool proved() const { return proved_; }
  Refusal refusal() const { return refusal_; }
  /// For the log, when refused: "is of run b, this is run a".
  const std::string& reason() const { return reason_; }

  const std::string& peer_task() const { return peer_task_; }
  const std::string& purpose() const { return purpose_; }

 private:
  std::string take_hello(const std::string& message);
  std::string take_proof(const std::string& message);
  std::string take_names(const std::string& message);
  void refuse(Refusal refusal, std::string reason);

  const Identity& self_;
  const Admission admits_;
  HandshakeReader reader_;
  /// The kind of message that is to come next.
  std::uint8_t next_;
  std::string transcript_;
  std::string peer_task_;
  std::string purpose_;
  bool proved_ = false;
  Refusal refusal_ = Refusal::kNone;
  std::string reason_;
};

/// The side that connects: send hello(), then feed it what arrives and send what it answers.
class ClientHandshake {
 public:
  /// `wanted_task` is the task that is to be there, or empty for any.
  ClientHandshake(const Identity& self, std::string_view purpose, std::string_view wanted_task);

  const std::string& hello() const { return hello_; }
  std::size_t wanted() const;
  std::string take(std::string_view bytes);

  bool proved() const { return proved_; }
  Refusal refusal() const { return refusal_; }
  /// With what to do: "is of run b, this is run a".
  const std::string& reason() const { return reason_; }
  const std::string& peer_task() const { return peer_task_; }

 private:
  std::string take_challenge(const std::string& message);
  std::string take_welcome(const std::string& message);
  void take_admission(const std::string& message);
  void refuse(Refusal refusal, std::string reason);

  const Identity& self_;
  std::string purpose_;
  std::string wanted_task_;
  std::string hello_;
  HandshakeReader reader_;
  /// The kind of message that is to come next.
  std::uint8_t next_;
  std::string transcript_;
  std::string peer_task_;
  bool proved_ = false;
  Refusal refusal_ = Refusal::kNone;
  std::string reason_;
};

/// The answer to a web browser or a gRPC client that connected here by mistake.
std::string http_answer();

}  // namespace muster::net
