// The bytes that a gRPC client sends: an HTTP/2 connection, in pieces, with streams that answer
// what they get; and gRPC's own headers and messages.

#include <algorithm>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/serving/grpc/grpc_framing.h"
#include "muster/serving/grpc/http2_client_fake.h"
#include "muster/serving/grpc/http2_session.h"

namespace {

using namespace muster;
using namespace muster::serving;

/// Reads messages as calls do, and answers with what came.
class EchoStream : public Http2Stream {
 public:
  explicit EchoStream(Http2Session*& session) : session_(session) {}

  void on_field(std::string_view name, std::string_view value) override {
    if (name == "grpc-timeout") parse_grpc_timeout(value);
    if (name == "content-type") is_grpc_ = is_grpc_content_type(value);
    if (name == ":path") path_ = percent_encoded(value);
  }
  void on_header_end() override {
    if (!is_grpc_) session_->respond_only(*this, {{":status", "415"}});
  }
  void on_data(std::string_view bytes) override {
    body_ += bytes;
    session_->consume(*this, bytes.size());
    try {
      if (body_.size() >= kGrpcPrefixBytes) read_grpc_prefix(body_);
    } catch (const Error&) {
      session_->reset(*this);
    }
  }
  void on_end() override {
    session_->respond(*this, {{":status", "200"}});
    session_->send(*this, grpc_prefix(body_.size()));
    session_->send(*this, std::move(body_));
    session_->end(*this, {{"grpc-status", "0"}, {"grpc-message", path_}});
  }
  void on_closed() override {
    // Once for each.
    if (is_gone_) __builtin_trap();
    is_gone_ = true;
  }

 private:
  Http2Session*& session_;
  std::string path_{};
  std::string body_{};
  bool is_grpc_ = false;
  bool is_gone_ = false;
};

void talk(std::string_view bytes, std::size_t piece) {
  Http2Session* self = nullptr;
  Http2Session session({.max_streams = 20}, [&] { return std::make_shared<EchoStream>(self); });
  self = &session;
  std::string out;
  bool goes_on = true;
  while (goes_on && !bytes.empty()) {
    goes_on = session.receive(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    out.clear();
    session.take_output(out, 1 << 16);
    if (session.streams() > 20) __builtin_trap();
  }
  session.begin_goaway();
  session.finish_goaway();
  session.take_output(out, 1 << 16);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // The first byte says how the rest comes.
  if (bytes.empty()) return 0;
  const auto piece = static_cast<std::uint8_t>(bytes[0]);
  talk(bytes.substr(1), piece == 0 ? bytes.size() : piece);
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  namespace h = http2;
  const std::string call =
      h::begun_call(1, "/a/B", h::header("grpc-timeout", "100m")) + h::message(1, "question");
  const std::string fields = h::call_headers("/a/B");
  const std::string whole = h::kHello + call + h::frame(h::kPing, 0, 0, "12345678") +
                            h::frame(h::kWindowUpdate, 0, 0, h::big_endian(1 << 20, 4)) +
                            h::begun_call(3, "/c/D") + h::message(3, "a", 0) + h::reset(3);
  return {'\0' + whole, '\x07' + whole,
          '\0' + h::kHello + h::frame(h::kHeaders, 0, 1, fields.substr(0, 20)) +
              h::frame(h::kContinuation, h::kEndOfHeaders, 1, fields.substr(20)) +
              h::message(1, "x") + h::frame(h::kSettings, h::kAcknowledge, 0, ""),
          '\0' + h::kHello +
              h::frame(h::kSettings, 0, 0, h::big_endian(4, 2) + h::big_endian(0, 4)) + call +
              h::frame(h::kWindowUpdate, 0, 1, h::big_endian(9, 4)) +
              h::frame(h::kPriority, 0, 5, std::string("\0\0\0\0\x10", 5)) +
              h::frame(h::kGoaway, 0, 0, std::string(8, '\0'))};
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = std::size_t{4} << 20, .bytes_per_input_byte = 64};
}
