// How fast records are read from and written to a store that answers 20 ms late, over the same
// bytes by plain HTTP with as many connections; and what a checkpoint to it costs the thread that
// trains.

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/async_checkpointer.h"
#include "muster/data/records/record_reader.h"
#include "muster/data/records/record_writer.h"
#include "muster/platform/api.h"
#include "muster/platform/stores/range_file.h"
#include "muster/testing/http_test_server.h"
#include "muster/testing/temp_dir.h"

namespace {

using muster::bench::Report;
using muster::testing::CannedResponse;
using muster::testing::HttpCall;

constexpr std::chrono::milliseconds kLatency{20};
constexpr std::uint64_t kRangeBytes = std::uint64_t{8} << 20;
constexpr std::size_t kRecordBytes = 8000;
/// One range is read while four are on their way; parts of an upload are four.
constexpr int kConnections = 5;
constexpr int kUploads = 4;

/// An S3 of one file that is a piece of some records again and again, and that forgets what is
/// written to it. Every answer comes late.
class LateStore {
 public:
  LateStore(std::string piece, std::uint64_t times)
      : piece_(std::move(piece)), bytes_(piece_.size() * times) {}

  const std::string& url() const { return server_.url(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  CannedResponse answer(const HttpCall& call) const {
    CannedResponse late = act(call);
    late.delay = kLatency;
    return late;
  }

  CannedResponse act(const HttpCall& call) const {
    if (call.method == "GET" && call.parameter("list-type")) {
      // Folders are there, and empty.
      return {.body = fmt::format("<ListBucketResult><Contents><Key>{}</Key><Size>0</Size>"
                                  "</Contents></ListBucketResult>",
                                  call.parameter("prefix").value_or(""))};
    }
    if (call.method == "GET" && call.path != "/bucket/records") return {.status = 404};
    if (call.method == "GET") return get(call);
    if (call.method == "HEAD") return {.status = 404};
    if (call.method == "DELETE") return {.status = 204};
    if (call.method == "POST" && call.query.starts_with("uploads")) {
      return {.headers = {{"x-amz-checksum-algorithm", "CRC32C"}},
              .body =
                  "<InitiateMultipartUploadResult><UploadId>1</UploadId>"
                  "</InitiateMultipartUploadResult>"};
    }
    if (call.method == "POST") {
      return {.body =
                  "<CompleteMultipartUploadResult><ETag>\"e\"</ETag>"
                  "</CompleteMultipartUploadResult>"};
    }
    return {.headers = {{"ETag", "\"e\""}}};
  }

  CannedResponse get(const HttpCall& call) const {
    unsigned long long begin = 0, last = 0;
    std::sscanf(call.header("range").c_str(), "bytes=%llu-%llu", &begin, &last);
    last = std::min<unsigned long long>(last, bytes_ - 1);
    CannedResponse answer{
        .status = 206,
        .headers = {{"ETag", "\"of-parts-1\""},
                    {"Content-Range", fmt::format("bytes {}-{}/{}", begin, last, bytes_)}}};
    answer.body.reserve(last - begin + 1);
    for (std::uint64_t at = begin; at <= last;) {
      const std::uint64_t from = at % piece_.size();
      const auto count = std::min<std::uint64_t>(piece_.size() - from, last - at + 1);
      answer.body.append(piece_, from, count);
      at += count;
    }
    return answer;
  }

  const std::string piece_;
  const std::uint64_t bytes_;
  // Last: its threads use the above.
  muster::testing::HttpTestServer server_{[this](const HttpCall& call) { return answer(call); }};
};

std::string records_of(std::size_t count) {
  const muster::testing::TempDir dir;
  muster::RecordWriter writer(dir / "records", {.durable = false});
  const std::string record(kRecordBytes, 'r');
  for (std::size_t i = 0; i < count; ++i) writer.append(record);
  writer.close();
  return muster::read_file(dir / "records");
}

/// HTTP with as little as possible around it.
class PlainConnection {
 public:
  explicit PlainConnection(const std::string& url) {
    descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      std::perror("connect");
      std::exit(1);
    }
  }
  ~PlainConnection() { ::close(descriptor_); }
  PlainConnection(const PlainConnection&) = delete;
  PlainConnection& operator=(const PlainConnection&) = delete;

  /// Into the same memory each time.
  void get(std::uint64_t begin, std::uint64_t length) {
    send(fmt::format("GET /bucket/records HTTP/1.1\r\nHost: x\r\nRange: bytes={}-{}\r\n\r\n", begin,
                     begin + length - 1));
    receive(length);
  }

  void put(std::string_view bytes) {
    send(fmt::format("PUT /bucket/x HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
                     bytes.size()));
    send(bytes);
    receive(0);
  }

 private:
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) std::exit(1);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  void receive(std::uint64_t body_bytes) {
    buffer_.resize(kRangeBytes + 4096);
    std::size_t have = 0;
    std::size_t end = std::string::npos;
    while (end == std::string::npos || have < end + 4 + body_bytes) {
      const auto count = ::recv(descriptor_, buffer_.data() + have, buffer_.size() - have, 0);
      if (count <= 0) std::exit(1);
      have += static_cast<std::size_t>(count);
      if (end == std::string::npos) {
        end = std::string_view(buffer_.data(), have).find("\r\n\r\n");
      }
    }
  }

  int descriptor_ = -1;
  std::string buffer_;
};

/// All ranges of so many bytes, each by the next free connection.
template <typename Call>
void by_plain_connections(const std::string& url, std::uint64_t bytes, int connections,
                          Call&& call) {
  std::atomic<std::uint64_t> next{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < connections; ++i) {
    threads.emplace_back([&] {
      PlainConnection connection(url);
      for (std::uint64_t at = next.fetch_add(kRangeBytes); at < bytes;
           at = next.fetch_add(kRangeBytes)) {
        call(connection, at, std::min(kRangeBytes, bytes - at));
      }
    });
  }
}

void add_ratio(Report& report, const std::string& name, std::uint64_t bytes,
               const std::function<void()>& work, const std::function<void()>& plain,
               double at_least) {
  if (!report.wants(name)) return;
  const auto pair = muster::bench::median_pair(work, plain, report.effort());
  const auto megabytes = static_cast<double>(bytes) / 1e6;
  report.add({.name = name,
              .value = megabytes / pair.work_seconds,
              .unit = "MB/s",
              .limit = megabytes / pair.limit_seconds,
              .at_least = at_least});
}

void measure_read(Report& report, const LateStore& store) {
  add_ratio(
      report, "read a TFRecord file of a store", store.bytes(),
      [] {
        muster::RecordReader reader("s3://bucket/records");
        std::uint64_t records = 0;
        while (reader.next()) ++records;
        muster::bench::keep(records);
      },
      [&] {
        by_plain_connections(store.url(), store.bytes(), kConnections,
                             [](PlainConnection& connection, std::uint64_t at,
                                std::uint64_t count) { connection.get(at, count); });
      },
      0.8);
}

/// `signing`: whether the SHA-256 of what is sent is signed, as is the rule without TLS.
void measure_write(Report& report, const LateStore& store, const std::string& name,
                   const char* signing) {
  ::setenv("MUSTER_S3_PAYLOAD_SIGNING", signing, 1);
  muster::register_stores();

  const std::uint64_t bytes = store.bytes();
  const std::string piece(std::size_t{4} << 20, 'w');
  const std::string part(kRangeBytes, 'w');
  add_ratio(
      report, name, bytes,
      [&] {
        const auto file = muster::file_system_for("s3://bucket/x").create("s3://bucket/x");
        for (std::uint64_t at = 0; at < bytes; at += piece.size()) file->write(piece);
        file->close();
      },
      [&] {
        by_plain_connections(store.url(), bytes, kUploads,
                             [&](PlainConnection& connection, std::uint64_t, std::uint64_t count) {
                               connection.put(std::string_view(part).substr(0, count));
                             });
      },
      0.7);
}

template <typename Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// In multiples of one memcpy of the variables: at most 1.3.
void measure_checkpoint(Report& report) {
  const std::string name = "time a checkpoint to a store adds to the training thread";
  if (!report.wants(name)) return;
  const std::vector<float> values(muster::bench::sized(125'000'000, 3'000'000), 1.0F);
  std::vector<float> copy = values;
  const std::vector<muster::TensorView> views{{.name = "kernel",
                                               .shape = {static_cast<std::int64_t>(values.size())},
                                               .bytes = std::as_bytes(std::span(values))}};
  muster::AsyncCheckpointer checkpointer{
      muster::CheckpointStore("s3://bucket/job", {.keep_checkpoint_max = 1})};
  checkpointer.reserve(values.size() * sizeof(float) + (std::size_t{1} << 20));
  std::vector<double> held;
  std::vector<double> copied;
  for (int i = 0; i < report.effort().repetitions; ++i) {
    copied.push_back(seconds_of([&] {
      std::memcpy(copy.data(), values.data(), values.size() * sizeof(float));
      muster::bench::keep(copy);
    }));
    held.push_back(seconds_of([&] {
      checkpointer.save(i, views);
      checkpointer.wait_until_copied();
    }));
    checkpointer.flush();
  }
  report.add({.name = name,
              .value = muster::bench::median(held) / muster::bench::median(copied),
              .unit = "memcpys"});
}

}  // namespace

int main(int argc, char** argv) {
  Report report(argc, argv);
  muster::log::set_level(muster::log::Level::kWarning);
  // 64 MB of records, sixteen times.
  const LateStore store(records_of(8000), muster::bench::sized(16, 1));
  ::setenv("AWS_ENDPOINT_URL", store.url().c_str(), 1);
  ::setenv("AWS_ACCESS_KEY_ID", "id", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  muster::register_stores();
  measure_read(report, store);
  measure_write(report, store, "write a file to a store, payload signed", "true");
  measure_write(report, store, "write a file to a store", "false");
  measure_checkpoint(report);
  return report.finish();
}
