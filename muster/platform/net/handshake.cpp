#include "muster/platform/net/handshake_internal.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/platform/net/hmac_internal.h"

namespace muster::net {
namespace {

constexpr std::string_view kHandshakeMagic = "MUSTER/7";
constexpr std::string_view kFamily = "MUSTER/";  // Of all versions.
constexpr std::size_t kEnvelopeBytes = 12;
constexpr std::size_t kMaxPayloadBytes = 2048;
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMaxNameBytes = 256;

constexpr std::uint8_t kHello = 1;
constexpr std::uint8_t kChallenge = 2;
constexpr std::uint8_t kProof = 3;
constexpr std::uint8_t kWelcome = 4;
constexpr std::uint8_t kNames = 5;
constexpr std::uint8_t kAdmission = 6;

constexpr std::string_view kClientWord = "muster client";
constexpr std::string_view kServerWord = "muster server";

std::size_t payload_bytes(std::string_view envelope) {
  return static_cast<std::size_t>(static_cast<unsigned char>(envelope[10])) |
         static_cast<std::size_t>(static_cast<unsigned char>(envelope[11])) << 8;
}

std::string with_envelope(std::uint8_t kind, std::string_view payload) {
  std::string message(kHandshakeMagic);
  message += static_cast<char>(kind);
  message += '\0';
  message += static_cast<char>(payload.size() & 0xff);
  message += static_cast<char>(payload.size() >> 8);
  message += payload;
  return message;
}

void put_name(std::string& payload, std::string_view name) {
  payload += static_cast<char>(name.size() & 0xff);
  payload += static_cast<char>(name.size() >> 8);
  payload += name;
}

std::string_view view(const Sha256::Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// Names come into logs and messages: what could pass for a line of its own stays out.
bool is_printable(std::string_view name) {
  return std::none_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

/// Reads the fields of a payload; a field that is not there or not well formed makes it fail.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message.substr(kEnvelopeBytes)) {}

  std::string_view bytes(std::size_t count) {
    if (count > rest_.size()) failed_ = true;
    if (failed_) return {};
    const auto field = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return field;
  }
  std::string name() {
    const auto size = bytes(2);
    if (failed_) return {};
    const auto field = bytes(static_cast<std::size_t>(static_cast<unsigned char>(size[0])) |
                             static_cast<std::size_t>(static_cast<unsigned char>(size[1])) << 8);
    if (field.size() > kMaxNameBytes || !is_printable(field)) failed_ = true;
    return failed_ ? std::string() : std::string(field);
  }
  std::optional<Refusal> verdict() {
    const auto byte = bytes(1);
    if (failed_) return std::nullopt;
    const auto value = static_cast<std::uint8_t>(byte[0]);
    if (value > static_cast<std::uint8_t>(Refusal::kWrongCluster)) failed_ = true;
    return static_cast<Refusal>(value);
  }
  Sha256::Digest digest() {
    Sha256::Digest result{};
    const auto field = bytes(result.size());
    if (!failed_) std::memcpy(result.data(), field.data(), result.size());
    return result;
  }
  /// Whether every field was there, and nothing is left.
  bool well_formed() const { return !failed_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

std::string draw() {
  std::string drawn(kNonceBytes, '\0');
  std::size_t filled = 0;
  while (filled < drawn.size()) {
    const ssize_t count = ::getrandom(drawn.data() + filled, drawn.size() - filled, 0);
    if (count < 0 && errno != EINTR) throw_errno(errno, "drawing random bytes");
    if (count > 0) filled += static_cast<std::size_t>(count);
  }
  return drawn;
}

Sha256::Digest proof_of(std::string_view word, const std::string& transcript,
                        const Identity& self) {
  return hmac_sha256(self.secret, std::string(word) + transcript);
}

/// Who speaks, by the first bytes of what is no message of ours.
Refusal stranger(std::string_view bytes) {
  for (const std::string_view method : {"GET ", "HEAD ", "POST ", "PUT ", "OPTIONS ", "DELETE ",
                                        "CONNECT ", "PATCH ", "PRI * HTTP/2", "HTTP/1."}) {
    const auto common = std::min(method.size(), bytes.size());
    if (common >= 4 && method.substr(0, common) == bytes.substr(0, common)) return Refusal::kHttp;
  }
  // It begins a handshake, or refuses ours.
  const bool is_tls = bytes.size() >= 2 && (bytes[0] == '\x16' || bytes[0] == '\x15');
  if (is_tls && bytes[1] == '\x03') return Refusal::kTls;
  if (bytes.substr(0, kFamily.size()) == kFamily) return Refusal::kOtherVersion;
  return Refusal::kNoise;
}

std::string describe_stranger(Refusal refusal) {
  switch (refusal) {
    case Refusal::kHttp:
      return "speaks HTTP";
    case Refusal::kTls:
      return "speaks TLS, and this task was told not to; give all tasks the same MUSTER_TLS";
    case Refusal::kOtherVersion:
      return "speaks another version of muster's protocol; run the same build on all tasks";
    default:
      return "speaks something that is not muster's protocol";
  }
}

void check_name(std::string_view what, const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes || !is_printable(name)) {
    throw InvalidArgument("{} must have 1 to {} bytes, none of them a control character: '{}'",
                          what, kMaxNameBytes, is_printable(name) ? name.substr(0, 64) : "");
  }
}

}  // namespace

void check(const Identity& identity) {
  check_name("the task", identity.task);
  check_name("the run id", identity.run_id);
}

std::size_t HandshakeReader::wanted() const {
  if (received_.size() < kEnvelopeBytes) return kEnvelopeBytes - received_.size();
  return kEnvelopeBytes + payload_bytes(received_) - received_.size();
}

Refusal HandshakeReader::take(std::string_view bytes, std::uint8_t kind) {
  received_ += bytes;
  const auto common = std::min(kHandshakeMagic.size(), received_.size());
  if (std::string_view(received_).substr(0, common) != kHandshakeMagic.substr(0, common)) {
    return stranger(received_);
  }
  if (received_.size() < kEnvelopeBytes) return Refusal::kNone;
  const bool known = static_cast<std::uint8_t>(received_[8]) == kind && received_[9] == '\0' &&
                     payload_bytes(received_) <= kMaxPayloadBytes;
  return known ? Refusal::kNone : Refusal::kNoise;
}

std::string HandshakeReader::release() { return std::exchange(received_, {}); }

ServerHandshake::ServerHandshake(const Identity& self, const Admission& admits)
    : self_(self), admits_(admits), next_(kHello) {}

std::size_t ServerHandshake::wanted() const {
  return proved_ || refusal_ != Refusal::kNone ? 0 : reader_.wanted();
}

std::string ServerHandshake::take(std::string_view bytes) {
  const Refusal foreign = reader_.take(bytes, next_);
  if (foreign != Refusal::kNone) {
    refuse(foreign, "it " + describe_stranger(foreign));
    return foreign == Refusal::kHttp ? http_answer() : "";
  }
  if (!reader_.complete()) return "";
  const std::string message = reader_.release();
  if (next_ == kHello) return take_hello(message);
  return next_ == kProof ? take_proof(message) : take_names(message);
}

std::string ServerHandshake::take_hello(const std::string& message) {
  Fields fields(message);
  fields.bytes(kNonceBytes);
  if (!fields.well_formed()) {
    refuse(Refusal::kNoise, "it sent a hello that is not well formed");
    return "";
  }
  next_ = kProof;
  std::string challenge = with_envelope(kChallenge, draw());
  transcript_ = message + challenge;
  return challenge;
}

std::string ServerHandshake::take_proof(const std::string& message) {
  Fields fields(message);
  const Sha256::Digest proof = fields.digest();
  if (!fields.well_formed()) {
    refuse(Refusal::kNoise, "it sent a proof that is not well formed");
    return "";
  }
  next_ = kNames;
  Sha256::Digest answer{};
  if (same_digest(proof, proof_of(kClientWord, transcript_, self_))) {
    answer = proof_of(kServerWord, transcript_, self_);
  } else {
    refuse(Refusal::kWrongSecret,
           "it has another secret than this task; give all tasks of the run the same one");
  }
  return with_envelope(kWelcome, std::string(1, static_cast<char>(refusal_)).append(view(answer)));
}

std::string ServerHandshake::take_names(const std::string& message) {
  Fields fields(message);
  peer_task_ = fields.name();
  const std::string run_id = fields.name();
  purpose_ = fields.name();
  const std::string wanted_task = fields.name();
  if (!fields.well_formed()) {
    refuse(Refusal::kNoise, "it sent names that are not well formed");
    return "";
  }
  if (run_id != self_.run_id) {
    refuse(Refusal::kWrongRun,
           fmt::format("{} is of run {}, this is run {}", peer_task_, run_id, self_.run_id));
  } else if (!wanted_task.empty() && wanted_task != self_.task) {
    refuse(Refusal::kWrongTask, fmt::format("{} looks for {}, this is {}; compare their clusters",
                                            peer_task_, wanted_task, self_.task));
  } else if (admits_ && !admits_(peer_task_)) {
    refuse(Refusal::kWrongCluster,
           fmt::format("the cluster of this task has no {}; compare their clusters", peer_task_));
  }
  proved_ = refusal_ == Refusal::kNone;
  std::string payload(1, static_cast<char>(refusal_));
  put_name(payload, self_.task);
  put_name(payload, self_.run_id);
  return with_envelope(kAdmission, payload);
}

void ServerHandshake::refuse(Refusal refusal, std::string reason) {
  refusal_ = refusal;
  reason_ = std::move(reason);
}

ClientHandshake::ClientHandshake(const Identity& self, std::string_view purpose,
                                 std::string_view wanted_task)
    : self_(self), purpose_(purpose), wanted_task_(wanted_task), next_(kChallenge) {
  check(self);
  check_name("the purpose of a connection", purpose_);
  if (!wanted_task_.empty()) check_name("the peer's task", wanted_task_);
  hello_ = with_envelope(kHello, draw());
}

std::size_t ClientHandshake::wanted() const {
  return proved_ || refusal_ != Refusal::kNone ? 0 : reader_.wanted();
}

std::string ClientHandshake::take(std::string_view bytes) {
  const Refusal foreign = reader_.take(bytes, next_);
  if (foreign != Refusal::kNone) {
    refuse(foreign, fmt::format("{}; look who listens there", describe_stranger(foreign)));
    return "";
  }
  if (!reader_.complete()) return "";
  const std::string message = reader_.release();
  if (next_ == kChallenge) return take_challenge(message);
  if (next_ == kWelcome) return take_welcome(message);
  take_admission(message);
  return "";
}

std::string ClientHandshake::take_challenge(const std::string& message) {
  Fields fields(message);
  fields.bytes(kNonceBytes);
  if (!fields.well_formed()) {
    refuse(Refusal::kNoise, "answered with a challenge that is not well formed");
    return "";
  }
  next_ = kWelcome;
  transcript_ = hello_ + message;
  return with_envelope(kProof, view(proof_of(kClientWord, transcript_, self_)));
}

std::string ClientHandshake::take_welcome(const std::string& message) {
  Fields fields(message);
  const auto verdict = fields.verdict();
  const Sha256::Digest proof = fields.digest();
  if (!fields.well_formed()) {
    refuse(Refusal::kNoise, "answered with a welcome that is not well formed");
  } else if (verdict != Refusal::kNone) {
    refuse(Refusal::kWrongSecret, "has another secret; give all tasks of the run the same one");
  } else if (!same_digest(proof, proof_of(kServerWord, transcript_, self_))) {
    refuse(Refusal::kWrongSecret,
           "does not know the secret of this run, but says that it is part "
           "of it; look who listens there");
  }
  if (refusal_ != Refusal::kNone) return "";
  next_ = kAdmission;
  std::string payload;
  put_name(payload, self_.task);
  put_name(payload, self_.run_id);
  put_name(payload, purpose_);
  put_name(payload, wanted_task_);
  return with_envelope(kNames, payload);
}

void ClientHandshake::take_admission(const std::string& message) {
  Fields fields(message);
  const auto verdict = fields.verdict();
  peer_task_ = fields.name();
  const std::string run_id = fields.name();
  if (!fields.well_formed()) {
    refuse(Refusal::kNoise, "answered with an admission that is not well formed");
  } else if (run_id != self_.run_id) {
    // The peer's own names decide, whatever its verdict: this side chooses its peers too.
    refuse(Refusal::kWrongRun, fmt::format("is {} of run {}, this is run {}; end the other run or "
                                           "give this one other addresses",
                                           peer_task_, run_id, self_.run_id));
  } else if (!wanted_task_.empty() && peer_task_ != wanted_task_) {
    refuse(Refusal::kWrongTask,
           fmt::format("is {} and not {}; compare the clusters that the two tasks were given",
                       peer_task_, wanted_task_));
  } else if (verdict != Refusal::kNone) {
    refuse(Refusal::kWrongCluster,
           fmt::format("has a cluster without {}; compare the clusters that the two were given",
                       self_.task));
  } else {
    proved_ = true;
  }
}

void ClientHandshake::refuse(Refusal refusal, std::string reason) {
  refusal_ = refusal;
  reason_ = std::move(reason);
}

std::string http_answer() {
  const std::string_view text = "This port speaks to the tasks of a run only.\n";
  return fmt::format(
      "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      text.size(), text);
}

}  // namespace muster::net
