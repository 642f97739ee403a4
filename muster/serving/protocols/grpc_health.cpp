#include "muster/serving/protocols/grpc_health_internal.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/records/wire.h"

namespace muster::serving {
namespace {

constexpr std::uint32_t kRequestService = 1;
constexpr std::uint32_t kResponseStatus = 1;
enum Health : std::uint64_t { kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

std::string read_service(std::string_view request) {
  try {
    wire::Reader reader(request, 0);
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
  } catch (const Error& error) {
    throw InvalidArgument("{}", error.message());
  }
}

std::string response_of(Health health) {
  std::string bytes;
  wire::append_varint(wire::tag(kResponseStatus, wire::kVarint), bytes);
  wire::append_varint(health, bytes);
  return bytes;
}

}  // namespace

struct GrpcHealth::State : std::enable_shared_from_this<GrpcHealth::State> {
  struct Watch {
    GrpcCallPtr call{};
    std::string service{};
    Health told = kServiceUnknown;
  };

  std::mutex mutex{};
  std::map<std::string, bool, std::less<>> services{};
  std::list<Watch> watches{};
  // Held while clients are told, so that they hear of changes in their order. Before the other.
  std::mutex telling{};

  Health health_of(std::string_view name) const {
    const auto found = services.find(name);
    if (found == services.end()) return kServiceUnknown;
    return found->second ? kServing : kNotServing;
  }

  void check(const GrpcCallPtr& call) {
    const std::string service = read_service(call->request());
    Health health = kServiceUnknown;
    {
      const std::lock_guard lock(mutex);
      health = health_of(service);
    }
    if (health == kServiceUnknown) throw NotFound("service name unknown");
    call->answer(response_of(health));
  }

  /// Tells of every change until the client goes.
  void watch(const GrpcCallPtr& call) {
    const std::string service = read_service(call->request());
    {
      const std::lock_guard order(telling);
      Health health = kServiceUnknown;
      {
        const std::lock_guard lock(mutex);
        health = health_of(service);
        watches.push_back({call, service, health});
      }
      call->send(response_of(health));
    }
    call->on_cancel([self = shared_from_this(), gone = call.get()] {
      // Let go of outside of the mutex.
      std::list<Watch> ended;
      const std::lock_guard lock(self->mutex);
      const auto found = std::ranges::find_if(
          self->watches, [&](const Watch& one) { return one.call.get() == gone; });
      if (found != self->watches.end()) ended.splice(ended.end(), self->watches, found);
    });
  }

  void set(const std::string& service, bool serving) {
    const std::lock_guard order(telling);
    std::vector<std::pair<GrpcCallPtr, Health>> changed;
    {
      const std::lock_guard lock(mutex);
      services[service] = serving;
      for (Watch& watch : watches) {
        const Health now = health_of(watch.service);
        if (std::exchange(watch.told, now) != now) changed.emplace_back(watch.call, now);
      }
    }
    for (const auto& [call, health] : changed) call->send(response_of(health));
  }
};

GrpcHealth::GrpcHealth() : state_(std::make_shared<State>()) {}
GrpcHealth::~GrpcHealth() = default;

void GrpcHealth::set(const std::string& service, bool serving) { state_->set(service, serving); }

void GrpcHealth::add_methods(GrpcMethods& methods) const {
  methods["/grpc.health.v1.Health/Check"] = {
      .work = GrpcWork::kShort,
      .handle = [state = state_](const GrpcCallPtr& call) { state->check(call); }};
  methods["/grpc.health.v1.Health/Watch"] = {
      .work = GrpcWork::kShort,
      .handle = [state = state_](const GrpcCallPtr& call) { state->watch(call); }};
}

}  // namespace muster::serving
