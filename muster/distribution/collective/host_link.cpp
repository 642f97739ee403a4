#include <utility>
#include <vector>

#include "muster/distribution/collective/device_link_internal.h"

namespace muster::internal {
namespace {

class HostLink final : public DeviceLink {
 public:
  HostLink(Group& group, std::string what) : group_(group), what_(std::move(what)) {}

  void begin() override {}
  void send(const at::Tensor& values, std::size_t to) override {
    group_.send(to, SlicePart{{.bytes = bytes_of(values)}});
  }
  // Messages that others send meanwhile are taken by threads of the group when a send waits, so no
  // task waits for this one before it can send.
  void receive(const at::Tensor& values, std::size_t from) override {
    received_.push_back({values, from});
  }
  void end() override {
    for (const Received& one : std::exchange(received_, {})) {
      const auto message = group_.take_unless_stopped<SlicePart>(one.from, what_);
      if (!message) throw PeersChanged("the run has ended");
      one.values.copy_(message->values.as_tensor(one.values.sizes(), one.values.scalar_type()));
    }
  }
  void abort() override {}

 private:
  struct Received {
    at::Tensor values;
    std::size_t from = 0;
  };

  Group& group_;
  const std::string what_;
  std::vector<Received> received_;
};

}  // namespace

std::unique_ptr<DeviceLink> make_host_link(Group& group, std::string what) {
  return std::make_unique<HostLink>(group, std::move(what));
}

}  // namespace muster::internal
