#include "muster/server/grpc_calls_internal.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "muster/base/error.h"

namespace muster::server {
namespace {

using grpc::Status;
using grpc::StatusCode;

// gRPC has half as many threads as there are processors, but from 2 to 16: all but one may answer.
int threads_to_spare() {
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(processors / 2, 2, 16) - 1;
}

Status refusal() {
  return {StatusCode::RESOURCE_EXHAUSTED, "too many calls wait to be answered; try again later"};
}

// Handlers make statuses of what they throw; memory may end around them.
Status status_of(const std::function<Status()>& compute) {
  try {
    return compute();
  } catch (...) {
    const Description failure = muster::describe(std::current_exception());
    return {static_cast<StatusCode>(failure.code), failure.message};
  }
}

class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(PeerCalls& peers, std::string peer) : counted_(peers, std::move(peer)) {}

 private:
  void OnDone() override { delete this; }

  CountedCall counted_;
};

class EndedStream final : public grpc::ServerGenericBidiReactor {
 public:
  EndedStream(PeerCalls& peers, std::string peer, const Status& status)
      : counted_(peers, std::move(peer)) {
    Finish(status);
  }

 private:
  void OnDone() override { delete this; }

  CountedCall counted_;
};

}  // namespace

GrpcCalls::GrpcCalls(std::size_t threads, std::size_t most_of_one_connection)
    : most_in_place_(threads_to_spare()),
      peers_(most_of_one_connection),
      threads_({.threads = threads, .waiting = threads}) {}

void GrpcCalls::answer(GrpcWork work, std::function<Status()> compute,
                       std::function<void(const Status&)> finish) {
  if (work == GrpcWork::kNone) return finish(status_of(compute));
  if (work == GrpcWork::kShort) {
    if (in_place_.fetch_add(1) < most_in_place_) {
      const Status status = status_of(compute);
      // Before the end of the call, after which all this may be gone.
      in_place_.fetch_sub(1);
      return finish(status);
    }
    in_place_.fetch_sub(1);
  }
  const bool runs =
      threads_.run([compute = std::move(compute), finish] { finish(status_of(compute)); });
  if (!runs) finish(refusal());
}

void GrpcService::add_bytes(const char* name, GrpcWork work, Answer answer) {
  using Handler = grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>;
  AddMethod(
      new grpc::internal::RpcServiceMethod(name, grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
  MarkMethodCallback(methods_++,
                     new Handler([this, work, answer = std::move(answer)](
                                     GrpcContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) -> grpc::ServerUnaryReactor* {
                       auto* const call = new UnaryCall(calls_.peers(), context->peer());
                       if (!request->Valid()) {
                         call->Finish({StatusCode::INTERNAL, "No payload"});
                         return call;
                       }
                       calls_.answer(
                           work,
                           [&answer, context, request, response] {
                             if (context->IsCancelled()) return Status::CANCELLED;
                             return answer(*context, *request, *response);
                           },
                           [call](const Status& status) { call->Finish(status); });
                       return call;
                     }));
}

GrpcStream::GrpcStream(GrpcCalls& calls, GrpcContext& context)
    : calls_(calls), context_(context), counted_(calls.peers(), context.peer()) {
  StartRead(&request_);
}

void GrpcStream::OnReadDone(bool ok) {
  if (!ok) return Finish(Status::OK);
  calls_.answer(
      GrpcWork::kShort,
      [this] {
        response_.Clear();
        return answer(request_, response_);
      },
      [this](const Status& status) {
        if (status.ok()) {
          StartWrite(&response_);
        } else {
          Finish(status);
        }
      });
}

void GrpcStream::OnWriteDone(bool ok) {
  if (!ok) return Finish(Status::CANCELLED);
  StartRead(&request_);
}

grpc::ServerGenericBidiReactor* ended_stream(GrpcCalls& calls, const GrpcContext& context,
                                             const Status& status) {
  return new EndedStream(calls.peers(), context.peer(), status);
}

grpc::Slice one_slice(const grpc::ByteBuffer& message) {
  grpc::Slice bytes;
  if (!message.TrySingleSlice(&bytes).ok() && !message.DumpToSingleSlice(&bytes).ok()) {
    throw ResourceExhausted("the request cannot be held in one piece");
  }
  return bytes;
}

std::string_view text_of(const grpc::Slice& bytes) {
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

grpc::ByteBuffer buffer_of(std::string bytes) {
  auto* const held = new std::string(std::move(bytes));
  const grpc::Slice slice(
      held->data(), held->size(), [](void* text) { delete static_cast<std::string*>(text); }, held);
  return {&slice, 1};
}

}  // namespace muster::server
