#include "muster/data/checkpoint/async_checkpointer.h"

#include <exception>
#include <mutex>
#include <utility>

#include "muster/base/log.h"
#include "muster/data/checkpoint/snapshot_writer.h"

namespace muster {

struct AsyncCheckpointer::Impl {
  explicit Impl(CheckpointStore store_) : store(std::move(store_)) {}

  struct Save {
    std::int64_t step = 0;
    std::string state_json{};
    std::function<void()> before_writing{};
    std::shared_ptr<CheckpointParts> parts{};
  };

  // In the background.
  void write(const Save& save, std::span<const TensorView> tensors) {
    try {
      if (save.before_writing) save.before_writing();
      Path prefix = store.save(save.step, tensors, save.state_json, save.parts.get());
      const std::lock_guard lock(mutex);
      ++status.saved;
      status.last_saved = std::move(prefix);
      status.last_failure.reset();
    } catch (...) {
      Description failure = describe(std::current_exception());
      log::error("could not save a checkpoint, training goes on step={} error=\"{}\"", save.step,
                 failure.message);
      const std::lock_guard lock(mutex);
      ++status.failed;
      status.last_failure = std::move(failure);
    }
  }

  CheckpointStore store;
  mutable std::mutex mutex;
  AsyncCheckpointStatus status;
  /// Last, so that it ends before what it uses.
  SnapshotWriter writer;
};

AsyncCheckpointer::AsyncCheckpointer(CheckpointStore store)
    : impl_(std::make_unique<Impl>(std::move(store))) {}
AsyncCheckpointer::~AsyncCheckpointer() = default;

void AsyncCheckpointer::reserve(std::size_t bytes) { impl_->writer.reserve(bytes); }

void AsyncCheckpointer::save(std::int64_t step, std::span<const TensorView> tensors,
                             std::string state_json, std::function<void()> before_writing,
                             std::shared_ptr<CheckpointParts> parts) {
  impl_->writer.begin(
      fmt::format("checkpoint step={}", step), tensors,
      [impl = impl_.get(),
       save = Impl::Save{step, std::move(state_json), std::move(before_writing), std::move(parts)}](
          std::span<const TensorView> copies) { impl->write(save, copies); });
}

void AsyncCheckpointer::wait_until_copied() { impl_->writer.wait_until_copied(); }
void AsyncCheckpointer::flush() { impl_->writer.flush(); }

AsyncCheckpointStatus AsyncCheckpointer::status() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->status;
}

}  // namespace muster
