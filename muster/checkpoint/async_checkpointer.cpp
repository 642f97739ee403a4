#include "muster/checkpoint/async_checkpointer.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/checkpoint/snapshot_internal.h"

namespace muster {

struct AsyncCheckpointer::Impl {
  enum class Phase { kIdle, kCopying, kWriting };

  explicit Impl(CheckpointStore store_) : store(std::move(store_)) {
    writer = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Impl() {
    flush();
    writer.request_stop();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void save(std::int64_t step_, std::span<const TensorView> tensors, std::string state_json_,
            std::function<void()> before_writing_) {
    flush();
    snapshot.plan(tensors);
    step = step_;
    state_json = std::move(state_json_);
    before_writing = std::move(before_writing_);
    {
      const std::lock_guard lock(mutex);
      phase = Phase::kCopying;
    }
    changed.notify_all();
  }

  void wait_until_copied() {
    snapshot.copy_chunks();
    wait_for("the copy of", [this] { return phase != Phase::kCopying; });
  }

  void flush() {
    wait_for("the writing of", [this] { return phase == Phase::kIdle; });
  }

  template <typename Ready>
  void wait_for(std::string_view what, Ready ready) {
    std::unique_lock lock(mutex);
    const WaitReason reason = [&] { return fmt::format("{} checkpoint step={}", what, step); };
    wait(done, lock, Deadline::never(), reason, ready);
  }

  void enter(Phase next) {
    {
      const std::lock_guard lock(mutex);
      phase = next;
    }
    done.notify_all();
  }

  // The writer's thread. It is no wait for anybody's work, so nothing is reported while it idles.
  void run(const std::stop_token& stop) {
    for (;;) {
      {
        std::unique_lock lock(mutex);
        if (!changed.wait(lock, stop, [this] { return phase == Phase::kCopying; })) return;
      }
      snapshot.copy_chunks();
      // At most one chunk is still under way, on the thread that waits for the copy.
      while (!snapshot.complete()) std::this_thread::yield();
      enter(Phase::kWriting);
      write();
      enter(Phase::kIdle);
    }
  }

  void write() {
    try {
      if (before_writing) before_writing();
      Path prefix = store.save(step, snapshot.tensors(), state_json);
      const std::lock_guard lock(mutex);
      ++status.saved;
      status.last_saved = std::move(prefix);
      status.last_failure.reset();
    } catch (...) {
      Description failure = describe(std::current_exception());
      log::error("could not save a checkpoint, training goes on step={} error=\"{}\"", step,
                 failure.message);
      const std::lock_guard lock(mutex);
      ++status.failed;
      status.last_failure = std::move(failure);
    }
  }

  CheckpointStore store;
  /// These belong to the caller while idle, and to both threads, unchanged, otherwise.
  Snapshot snapshot;
  std::int64_t step = 0;
  std::string state_json;
  std::function<void()> before_writing;

  mutable std::mutex mutex;
  std::condition_variable_any changed;
  std::condition_variable done;
  Phase phase = Phase::kIdle;
  AsyncCheckpointStatus status;
  /// Last, so that it ends before what it uses.
  std::jthread writer;
};

AsyncCheckpointer::AsyncCheckpointer(CheckpointStore store)
    : impl_(std::make_unique<Impl>(std::move(store))) {}
AsyncCheckpointer::~AsyncCheckpointer() = default;

void AsyncCheckpointer::reserve(std::size_t bytes) {
  impl_->flush();
  impl_->snapshot.reserve(bytes);
}

void AsyncCheckpointer::save(std::int64_t step, std::span<const TensorView> tensors,
                             std::string state_json, std::function<void()> before_writing) {
  impl_->save(step, tensors, std::move(state_json), std::move(before_writing));
}

void AsyncCheckpointer::wait_until_copied() { impl_->wait_until_copied(); }
void AsyncCheckpointer::flush() { impl_->flush(); }

AsyncCheckpointStatus AsyncCheckpointer::status() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->status;
}

}  // namespace muster
