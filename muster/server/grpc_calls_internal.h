#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "muster/server/call_threads_internal.h"
#include "muster/server/peer_calls_internal.h"

/// How calls come from gRPC's threads to ours. gRPC tells of a call in a thread of its own (its
/// "callback" interface), of which there are few, and which also read and write connections.
namespace muster::server {

using GrpcContext = grpc::CallbackServerContext;

enum class GrpcWork {
  /// Takes no time: always in gRPC's thread.
  kNone,
  /// Begins at once in gRPC's thread, as long as another is left to read; needs no thread switch.
  kShort,
  /// May wait for something that takes long.
  kLong,
};

/// What all calls of a server share. It outlives the server.
class GrpcCalls {
 public:
  GrpcCalls(std::size_t threads, std::size_t most_of_one_connection);

  PeerCalls& peers() { return peers_; }

  /// Answers in gRPC's thread or in one of ours: computes a status, then hands it on. What `finish`
  /// gets is RESOURCE_EXHAUSTED, at once, when too many calls wait for a thread.
  void answer(GrpcWork work, std::function<grpc::Status()> compute,
              std::function<void(const grpc::Status&)> finish);

 private:
  const int most_in_place_;
  std::atomic<int> in_place_{0};
  PeerCalls peers_;
  CallThreads threads_;
};

/// A service whose calls have one request and one answer. Messages are read and written in the
/// thread that answers, so that a call that is refused costs no parsing.
class GrpcService : public grpc::Service {
 public:
  explicit GrpcService(GrpcCalls& calls) : calls_(calls) {}

 protected:
  using Answer = std::function<grpc::Status(GrpcContext& context, const grpc::ByteBuffer& request,
                                            grpc::ByteBuffer& response)>;

  /// `name` is kept as it is: "/package.Service/Method".
  void add_bytes(const char* name, GrpcWork work, Answer answer);

  template <typename Request, typename Response>
  void add(const char* name, GrpcWork work,
           std::function<grpc::Status(GrpcContext&, const Request&, Response&)> answer) {
    add_bytes(name, work,
              [answer = std::move(answer)](GrpcContext& context, const grpc::ByteBuffer& bytes,
                                           grpc::ByteBuffer& out) {
                Request request;
                grpc::ByteBuffer copy(bytes);  // Of references.
                grpc::Status status =
                    grpc::SerializationTraits<Request>::Deserialize(&copy, &request);
                if (!status.ok()) return status;
                Response response;
                status = answer(context, request, response);
                if (!status.ok()) return status;
                bool is_own = false;
                return grpc::SerializationTraits<Response>::Serialize(response, &out, &is_own);
              });
  }

 private:
  GrpcCalls& calls_;
  int methods_ = 0;
};

/// A stream that answers message after message, each before the next is read. Deletes itself.
class GrpcStream : public grpc::ServerGenericBidiReactor {
 public:
  GrpcStream(GrpcCalls& calls, GrpcContext& context);

 protected:
  ~GrpcStream() override = default;
  /// A status other than OK ends the stream.
  virtual grpc::Status answer(const grpc::ByteBuffer& request, grpc::ByteBuffer& response) = 0;

  GrpcCalls& calls() { return calls_; }
  GrpcContext& context() { return context_; }

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

  GrpcCalls& calls_;
  GrpcContext& context_;
  CountedCall counted_;
  grpc::ByteBuffer request_{};
  grpc::ByteBuffer response_{};
};

/// A stream that ends at once with this status.
grpc::ServerGenericBidiReactor* ended_stream(GrpcCalls& calls, const GrpcContext& context,
                                             const grpc::Status& status);

/// The bytes of a message in one piece. Throws ResourceExhausted when they cannot be.
grpc::Slice one_slice(const grpc::ByteBuffer& message);
/// A view of them.
std::string_view text_of(const grpc::Slice& bytes);
/// Without a copy.
grpc::ByteBuffer buffer_of(std::string bytes);

}  // namespace muster::server
