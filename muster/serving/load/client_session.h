#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace muster::serving {

/// A request as it is sent again and again, and nothing is computed for it then.
struct PreparedRequest {
  std::string method = "POST";
  /// "/v1/models/m:predict"; over gRPC "/tensorflow.serving.PredictionService/Predict".
  std::string path{};
  /// JSON; over gRPC a message, without its prefix.
  std::string body{};
};

enum class AnswerKind {
  kOk,
  /// The server has not begun with the request, and it may be sent again.
  kNotTaken,
  kFailed,
};

struct ClientAnswer {
  std::uint64_t tag = 0;
  AnswerKind kind = AnswerKind::kOk;
  /// For those that failed: "HTTP 503", "UNAVAILABLE", "connection closed".
  std::string error{};
  /// In the words of the server.
  std::string message{};
  /// Body, or message without its prefix, where bodies are wanted.
  std::string body{};
};

/// The client's end of a connection without its socket: bytes that came go in, bytes to be sent
/// come out. One thread at a time.
class ClientSession {
 public:
  using OnAnswer = std::function<void(ClientAnswer)>;

  struct Options {
    /// HOST:PORT, as the header names the server.
    std::string authority{};
    /// Sent as a bearer token unless empty.
    std::string token{};
    /// Deadline that a request names to the server, over gRPC; 0: none.
    std::int64_t deadline_nanoseconds = 0;
    /// In flight at one time, over gRPC.
    std::size_t most_streams = 100;
    /// A longer answer ends the connection.
    std::size_t most_answer_bytes = std::size_t{1} << 30;
    bool keep_bodies = false;
  };

  virtual ~ClientSession() = default;

  virtual bool can_send() const = 0;
  /// `tag` names the request in its answer; `request` outlives it.
  virtual void send(std::uint64_t tag, const PreparedRequest& request) = 0;
  /// Gives up on a request, whose answer is not reported. False when that ends the connection.
  virtual bool cancel(std::uint64_t tag) = 0;
  /// False when the connection is over.
  virtual bool receive(std::string_view bytes) = 0;
  /// The server has closed: answers all that is open.
  virtual void close(std::string_view why) = 0;
  /// Appends what is to be sent.
  virtual void take_output(std::string& out) = 0;
  virtual std::size_t in_flight() const = 0;
};

/// HTTP/1.1: one request at a time.
std::unique_ptr<ClientSession> http1_session(const ClientSession::Options& options,
                                             ClientSession::OnAnswer on_answer);
/// gRPC over HTTP/2: many requests at a time.
std::unique_ptr<ClientSession> grpc_session(const ClientSession::Options& options,
                                            ClientSession::OnAnswer on_answer);

}  // namespace muster::serving
