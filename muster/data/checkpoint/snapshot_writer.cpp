#include "muster/data/checkpoint/snapshot_writer.h"

#include <fmt/core.h>

#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "muster/base/wait.h"
#include "muster/data/checkpoint/snapshot_internal.h"

namespace muster {

struct SnapshotWriter::Impl {
  enum class Phase { kIdle, kCopying, kWriting };

  Impl() {
    writer = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Impl() {
    flush();
    writer.request_stop();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void begin(std::string what_, std::span<const TensorView> tensors, Write write_) {
    flush();
    snapshot.plan(tensors);
    what = std::move(what_);
    write = std::move(write_);
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
  void wait_for(std::string_view stage, Ready ready) {
    std::unique_lock lock(mutex);
    const WaitReason reason = [&] { return fmt::format("{} {}", stage, what); };
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
      write(snapshot.tensors());
      write = nullptr;
      enter(Phase::kIdle);
    }
  }

  /// These belong to the caller while idle, and to both threads, unchanged, otherwise.
  Snapshot snapshot;
  std::string what;
  Write write;

  std::mutex mutex;
  std::condition_variable_any changed;
  std::condition_variable done;
  Phase phase = Phase::kIdle;
  /// Last, so that it ends before what it uses.
  std::jthread writer;
};

SnapshotWriter::SnapshotWriter() : impl_(std::make_unique<Impl>()) {}
SnapshotWriter::~SnapshotWriter() = default;

void SnapshotWriter::reserve(std::size_t bytes) {
  impl_->flush();
  impl_->snapshot.reserve(bytes);
}

void SnapshotWriter::begin(std::string what, std::span<const TensorView> tensors, Write write) {
  impl_->begin(std::move(what), tensors, std::move(write));
}

void SnapshotWriter::wait_until_copied() { impl_->wait_until_copied(); }
void SnapshotWriter::flush() { impl_->flush(); }

}  // namespace muster
