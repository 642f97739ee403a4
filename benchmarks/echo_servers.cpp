#include "benchmarks/echo_servers.h"

#include <fmt/core.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <thread>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

class EchoService : public grpc::Service {
 public:
  explicit EchoService(const std::string& answer) {
    const grpc::Slice slice(answer);
    answer_ = grpc::ByteBuffer(&slice, 1);
    // The code that gRPC's generator writes for a method, with bytes for messages.
    AddMethod(new grpc::internal::RpcServiceMethod(
        GrpcEcho::method(), grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::RpcMethodHandler<EchoService, grpc::ByteBuffer, grpc::ByteBuffer>(
            [](EchoService* self, grpc::ServerContext*, const grpc::ByteBuffer*,
               grpc::ByteBuffer* response) {
              *response = self->answer_;
              return grpc::Status::OK;
            },
            this)));
  }

 private:
  grpc::ByteBuffer answer_;
};

class EchoSession : public std::enable_shared_from_this<EchoSession> {
 public:
  EchoSession(tcp::socket socket, const std::string& answer)
      : stream_(std::move(socket)), answer_(answer) {
    stream_.socket().set_option(tcp::no_delay(true));
  }

  void read() {
    request_ = {};
    stream_.expires_after(std::chrono::seconds(60));
    http::async_read(stream_, buffer_, request_,
                     [self = shared_from_this()](error_code error, std::size_t) {
                       if (!error) self->write();
                     });
  }

 private:
  void write() {
    response_ = {http::status::ok, request_.version()};
    response_.set(http::field::content_type, "application/json");
    response_.keep_alive(request_.keep_alive());
    response_.body() = answer_;
    response_.prepare_payload();
    http::async_write(stream_, response_,
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (!error) self->read();
                      });
  }

  beast::tcp_stream stream_;
  const std::string& answer_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response<http::string_body> response_;
};

}  // namespace

struct GrpcEcho::Impl {
  EchoService service;
  int port = 0;
  std::unique_ptr<grpc::Server> server{};
};

const char* GrpcEcho::method() { return "/bench.Echo/Call"; }

GrpcEcho::GrpcEcho(std::string answer) : impl_(new Impl{EchoService(answer)}) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &impl_->port);
  builder.RegisterService(&impl_->service);
  impl_->server = builder.BuildAndStart();
}
GrpcEcho::~GrpcEcho() { impl_->server->Shutdown(std::chrono::system_clock::now()); }
std::string GrpcEcho::address() const { return fmt::format("127.0.0.1:{}", impl_->port); }

struct BeastEcho::Impl {
  std::string answer{};
  asio::io_context io{};
  tcp::acceptor acceptor{io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::vector<std::jthread> threads{};

  void accept() {
    acceptor.async_accept(asio::make_strand(io), [this](error_code error, tcp::socket socket) {
      if (error) return;
      std::make_shared<EchoSession>(std::move(socket), answer)->read();
      accept();
    });
  }
};

BeastEcho::BeastEcho(std::string answer, int threads) : impl_(std::make_unique<Impl>()) {
  impl_->answer = std::move(answer);
  impl_->accept();
  for (int i = 0; i < threads; ++i) impl_->threads.emplace_back([this] { impl_->io.run(); });
}
BeastEcho::~BeastEcho() {
  impl_->io.stop();
  impl_->threads.clear();
}
std::string BeastEcho::address() const {
  return fmt::format("127.0.0.1:{}", impl_->acceptor.local_endpoint().port());
}

}  // namespace muster::bench
