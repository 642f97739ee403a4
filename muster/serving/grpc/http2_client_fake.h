#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "muster/testing/raw_tcp.h"

/// For tests: HTTP/2 byte by byte, so that it can be wrong.
namespace muster::serving::http2 {

inline constexpr char kData = 0;
inline constexpr char kHeaders = 1;
inline constexpr char kPriority = 2;
inline constexpr char kResetStream = 3;
inline constexpr char kSettings = 4;
inline constexpr char kPing = 6;
inline constexpr char kGoaway = 7;
inline constexpr char kWindowUpdate = 8;
inline constexpr char kContinuation = 9;
inline constexpr char kEndOfStream = 1;
inline constexpr char kAcknowledge = 1;
inline constexpr char kEndOfHeaders = 4;

inline std::string big_endian(std::size_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = bytes; i-- > 0;) out += static_cast<char>(value >> (8 * i));
  return out;
}

inline std::size_t number_of(std::string_view bytes) {
  std::size_t out = 0;
  for (const char byte : bytes) out = out << 8 | static_cast<unsigned char>(byte);
  return out;
}

inline std::string frame(char kind, char flags, std::size_t stream, const std::string& payload) {
  return big_endian(payload.size(), 3) + kind + flags + big_endian(stream, 4) + payload;
}

// As HPACK has it without a table and without Huffman's code; values of up to 126 bytes.
inline std::string header(const std::string& name, const std::string& value) {
  return '\0' + big_endian(name.size(), 1) + name + big_endian(value.size(), 1) + value;
}

inline const std::string kHello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, "");

inline std::string call_headers(const std::string& method) {
  return header(":method", "POST") + header(":scheme", "http") + header(":path", method) +
         header(":authority", "h") + header("content-type", "application/grpc") +
         header("te", "trailers");
}

inline std::string begun_call(std::size_t stream, const std::string& method,
                              const std::string& more = "") {
  return frame(kHeaders, kEndOfHeaders, stream, call_headers(method) + more);
}

inline std::string message(std::size_t stream, const std::string& bytes, char flags = kEndOfStream,
                           char is_compressed = 0) {
  return frame(kData, flags, stream, is_compressed + big_endian(bytes.size(), 4) + bytes);
}

inline std::string reset(std::size_t stream) {
  return frame(kResetStream, 0, stream, big_endian(NGHTTP2_CANCEL, 4));
}

struct Frame {
  char kind = 0;
  char flags = 0;
  std::size_t stream = 0;
  std::string payload{};
};

/// Takes the first frame from the front of `bytes`, if it is whole.
inline std::optional<Frame> take_frame(std::string& bytes) {
  if (bytes.size() < 9) return std::nullopt;
  const std::size_t size = number_of(std::string_view(bytes).substr(0, 3));
  if (bytes.size() < 9 + size) return std::nullopt;
  Frame out{bytes[3], bytes[4], number_of(std::string_view(bytes).substr(5, 4)),
            bytes.substr(9, size)};
  bytes.erase(0, 9 + size);
  return out;
}

/// The answer on a stream.
struct Answer {
  std::map<std::string, std::string> fields{};
  std::string data{};
  bool is_ended = false;
  std::optional<std::size_t> reset{};

  /// Bytes of the message in the data, without the five-byte prefix.
  std::string message() const { return data.size() < 5 ? "" : data.substr(5); }
};

/// Puts answers together from frames.
class Reader {
 public:
  Reader() { nghttp2_hd_inflate_new(&inflater_); }
  ~Reader() { nghttp2_hd_inflate_del(inflater_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void add(const Frame& frame) {
    Answer& answer = answers_[frame.stream];
    if (frame.kind == kHeaders) read_fields(frame.payload, answer);
    if (frame.kind == kData) answer.data += frame.payload;
    if (frame.kind == kResetStream) answer.reset = number_of(frame.payload);
    if (frame.kind == kGoaway) goaway_ = number_of(std::string_view(frame.payload).substr(4, 4));
    if ((frame.kind == kHeaders || frame.kind == kData) && (frame.flags & kEndOfStream) != 0) {
      answer.is_ended = true;
    }
  }
  const Answer& operator[](std::size_t stream) { return answers_[stream]; }
  /// The error of a GOAWAY, if one came.
  const std::optional<std::size_t>& goaway() const { return goaway_; }

 private:
  void read_fields(const std::string& block, Answer& answer) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(block.data());
    std::size_t left = block.size();
    int flags = 0;
    while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
      nghttp2_nv pair{};
      const auto size = nghttp2_hd_inflate_hd2(inflater_, &pair, &flags, at, left, 1);
      if (size < 0) return;
      at += size;
      left -= static_cast<std::size_t>(size);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        answer.fields[std::string(reinterpret_cast<const char*>(pair.name), pair.namelen)] =
            std::string(reinterpret_cast<const char*>(pair.value), pair.valuelen);
      }
    }
    nghttp2_hd_inflate_end_headers(inflater_);
  }

  nghttp2_hd_inflater* inflater_ = nullptr;
  std::map<std::size_t, Answer> answers_{};
  std::optional<std::size_t> goaway_{};
};

/// A connection to a server.
class Client {
 public:
  explicit Client(const std::string& address) : tcp_(address) { send(kHello); }
  explicit Client(int descriptor) : tcp_(descriptor) { send(kHello); }

  bool send(const std::string& bytes) { return tcp_.send(bytes); }
  testing::RawTcp& tcp() { return tcp_; }
  Reader& reader() { return reader_; }

  /// The next frame; nothing when the server has closed.
  std::optional<Frame> read() {
    std::string bytes = tcp_.read(9);
    if (bytes.size() < 9) return std::nullopt;
    bytes += tcp_.read(number_of(std::string_view(bytes).substr(0, 3)));
    auto frame = take_frame(bytes);
    if (frame) reader_.add(*frame);
    return frame;
  }
  /// Reads until a stream has ended or was reset, or the server has closed.
  const Answer& answer(std::size_t stream) {
    while (!reader_[stream].is_ended && !reader_[stream].reset && read()) continue;
    return reader_[stream];
  }
  /// Reads until a frame of this kind has come. Nothing when the server closes before.
  std::optional<Frame> wait_for(char kind, char flags = 0) {
    while (auto frame = read()) {
      if (frame->kind == kind && (frame->flags & flags) == flags) return frame;
    }
    return std::nullopt;
  }

 private:
  testing::RawTcp tcp_;
  Reader reader_{};
};

}  // namespace muster::serving::http2
