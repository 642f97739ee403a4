#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/distribution/collective/device_link_internal.h"

namespace muster::internal {
namespace {

void check_nccl(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw Internal("NCCL: {}: {} ({})", what, ncclGetErrorString(result), ncclGetLastError(nullptr));
}

/// A communicator on its way, shared with the thread that makes it: NCCL waits for the other tasks
/// without an end, and a thread that waits for NCCL may have to continue without it.
struct Beginning {
  std::mutex mutex{};
  std::condition_variable changed{};
  bool is_over = false;
  bool is_abandoned = false;
  ncclResult_t result = ncclInProgress;
  std::string error{};
  ncclComm_t communicator = nullptr;
};

void make_communicator(const std::shared_ptr<Beginning>& beginning, const ncclUniqueId& id,
                       int rank, int ranks, c10::Device device) {
  const c10::cuda::CUDAGuard on(device);
  ncclComm_t communicator = nullptr;
  const ncclResult_t result = ncclCommInitRank(&communicator, ranks, id, rank);
  std::unique_lock lock(beginning->mutex);
  beginning->is_over = true;
  beginning->result = result;
  if (result != ncclSuccess) beginning->error = ncclGetLastError(nullptr);
  beginning->communicator = communicator;
  const bool is_unwanted = beginning->is_abandoned && result == ncclSuccess;
  beginning->changed.notify_all();
  lock.unlock();
  if (is_unwanted) static_cast<void>(ncclCommAbort(communicator));
}

class NcclLink final : public DeviceLink {
 public:
  NcclLink(ncclComm_t communicator, c10::Device device)
      : communicator_(communicator), device_(device) {}
  ~NcclLink() override { abort(); }

  void begin() override { check_nccl(ncclGroupStart(), "beginning an exchange"); }
  void send(const at::Tensor& values, std::size_t to) override {
    check_nccl(ncclSend(values.data_ptr(), values.nbytes(), ncclUint8, static_cast<int>(to),
                        communicator_, stream()),
               "sending");
  }
  void receive(const at::Tensor& values, std::size_t from) override {
    check_nccl(ncclRecv(values.data_ptr(), values.nbytes(), ncclUint8, static_cast<int>(from),
                        communicator_, stream()),
               "receiving");
  }
  void end() override { check_nccl(ncclGroupEnd(), "ending an exchange"); }

  // NCCL ends the device's work at once, but returns only when nothing that was captured holds the
  // communicator any more: a thread of its own waits for that.
  void abort() override {
    const ncclComm_t communicator = std::exchange(communicator_, nullptr);
    if (communicator == nullptr) return;
    std::thread([communicator] {
      const ncclResult_t result = ncclCommAbort(communicator);
      if (result != ncclSuccess) log::warning("NCCL: aborting: {}", ncclGetErrorString(result));
    }).detach();
  }

 private:
  cudaStream_t stream() const { return c10::cuda::getCurrentCUDAStream(device_.index()).stream(); }

  ncclComm_t communicator_;
  c10::Device device_;
};

}  // namespace

std::string nccl_obstacle() { return {}; }

std::string make_nccl_id() {
  ncclUniqueId id;
  check_nccl(ncclGetUniqueId(&id), "making an id");
  return {id.internal, sizeof(id.internal)};
}

std::unique_ptr<DeviceLink> make_nccl_link(const std::string& id, std::size_t rank,
                                           std::size_t ranks, c10::Device device,
                                           const std::function<void()>& check) {
  ncclUniqueId unique;
  if (id.size() != sizeof(unique.internal)) {
    throw DataLoss("an id of NCCL has {} bytes, and {} are due", id.size(),
                   sizeof(unique.internal));
  }
  std::memcpy(unique.internal, id.data(), id.size());
  const auto beginning = std::make_shared<Beginning>();
  std::thread(make_communicator, beginning, unique, static_cast<int>(rank), static_cast<int>(ranks),
              device)
      .detach();
  const BlockingRegion region([] { return "the other tasks' GPUs: NCCL connects them"; });
  std::unique_lock lock(beginning->mutex);
  try {
    while (!beginning->is_over) {
      beginning->changed.wait_for(lock, std::chrono::milliseconds(5));
      if (!beginning->is_over) check();
    }
  } catch (...) {
    beginning->is_abandoned = true;
    throw;
  }
  if (beginning->result != ncclSuccess) {
    lock.unlock();
    // A task that is lost is the usual reason, and soon known.
    for (int i = 0; i < 400; ++i) {
      check();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    throw FailedPrecondition(
        "NCCL cannot connect the GPUs of {} tasks: {} ({}); NCCL_DEBUG=INFO says more. Tasks that "
        "share a GPU need an NCCL_HOSTID each",
        ranks, ncclGetErrorString(beginning->result), beginning->error);
  }
  return std::make_unique<NcclLink>(beginning->communicator, device);
}

}  // namespace muster::internal
