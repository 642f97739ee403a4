#include "muster/server/grpc_health_internal.h"

#include "muster/base/error.h"
#include "muster/records/wire.h"

namespace muster::server {
namespace {

using grpc::Status;
using grpc::StatusCode;

constexpr std::uint32_t kRequestService = 1;
constexpr std::uint32_t kResponseStatus = 1;
enum Health : std::uint64_t { kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

std::string read_service(const grpc::ByteBuffer& request) {
  const grpc::Slice bytes = one_slice(request);
  wire::Reader reader(text_of(bytes), 0);
  std::string service;
  while (!reader.done()) {
    const std::uint32_t field = reader.tag();
    if (field == wire::tag(kRequestService, wire::kBytes)) {
      service = reader.bytes();
    } else {
      reader.skip(field);
    }
  }
  return service;
}

grpc::ByteBuffer response_of(Health health) {
  std::string bytes;
  wire::append_varint(wire::tag(kResponseStatus, wire::kVarint), bytes);
  wire::append_varint(health, bytes);
  return buffer_of(std::move(bytes));
}

template <typename Services>
Health health_of(const Services& services, std::string_view name) {
  const auto found = services.find(name);
  if (found == services.end()) return kServiceUnknown;
  return found->second ? kServing : kNotServing;
}

}  // namespace

/// Tells of every change until the client goes.
class GrpcHealth::Watch final : public grpc::ServerGenericBidiReactor {
 public:
  Watch(GrpcHealth& health, const GrpcContext& context)
      : health_(health), counted_(health.calls_.peers(), context.peer()) {
    StartRead(&request_);
  }

  // Under the mutex of the service, as are all of its members.
  void tell() {
    const Health now = health_of(health_.services_, service_);
    if (is_writing_ || is_finished_ || told_ == now) return;
    told_ = now;
    is_writing_ = true;
    response_ = response_of(now);
    StartWrite(&response_);
  }

 private:
  void OnReadDone(bool ok) override {
    const std::lock_guard lock(health_.mutex_);
    if (!ok) return finish({StatusCode::INTERNAL, "No payload"});
    try {
      service_ = read_service(request_);
    } catch (const Error& error) {
      return finish({StatusCode::INVALID_ARGUMENT, error.message()});
    }
    health_.watches_.insert(this);
    tell();
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(health_.mutex_);
    is_writing_ = false;
    if (!ok) return finish(Status::CANCELLED);
    tell();
  }
  void OnCancel() override {
    const std::lock_guard lock(health_.mutex_);
    finish(Status::CANCELLED);
  }
  void OnDone() override {
    {
      const std::lock_guard lock(health_.mutex_);
      health_.watches_.erase(this);
    }
    delete this;
  }

  void finish(const Status& status) {
    if (!std::exchange(is_finished_, true)) Finish(status);
  }

  GrpcHealth& health_;
  CountedCall counted_;
  grpc::ByteBuffer request_{};
  grpc::ByteBuffer response_{};
  std::string service_{};
  std::uint64_t told_ = 0;
  bool is_writing_ = false;
  bool is_finished_ = false;
};

GrpcHealth::GrpcHealth(GrpcCalls& calls) : GrpcService(calls), calls_(calls) {
  add_bytes("/grpc.health.v1.Health/Check", GrpcWork::kNone,
            [this](GrpcContext&, const grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
              try {
                const std::string service = read_service(request);
                const std::lock_guard lock(mutex_);
                const Health health = health_of(services_, service);
                if (health == kServiceUnknown) {
                  return Status(StatusCode::NOT_FOUND, "service name unknown");
                }
                response = response_of(health);
                return Status::OK;
              } catch (const Error& error) {
                return Status(StatusCode::INVALID_ARGUMENT, error.message());
              }
            });
}

GrpcHealth::~GrpcHealth() = default;

void GrpcHealth::set(const std::string& service, bool serving) {
  const std::lock_guard lock(mutex_);
  services_[service] = serving;
  for (Watch* watch : watches_) watch->tell();
}

grpc::ServerGenericBidiReactor* GrpcHealth::watch(GrpcContext& context) {
  return new Watch(*this, context);
}

}  // namespace muster::server
