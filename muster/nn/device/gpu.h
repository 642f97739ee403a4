#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/data/features/batch.h"

/// Functions of a GPU for training and serving, beyond libtorch's device-independent ones. Without
/// CUDA (no_cuda_gpu.cpp) there are no GPUs, and the CPU acts as one, whose work is done at
/// once.
namespace muster {

int gpu_count();
/// Name that its maker gives it.
std::string gpu_name(c10::Device device);
/// Why gpu_count() is 0, for errors.
std::string why_no_gpu();
/// Whether copies between the two go from one to the other, and not by way of host memory.
bool has_peer_access(c10::Device from, c10::Device to);

/// Gives memory that libtorch keeps for later tensors back to its devices.
void release_cached_memory();

/// While it lives, what this thread gives to the device goes to a stream of its own, which can be
/// captured. Waits for the device at both ends. On the CPU nothing happens.
class StreamScope {
 public:
  explicit StreamScope(c10::Device device);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A stream of its own that threads give work to in turns, and that can be captured. On the CPU
/// nothing happens.
class OwnStream {
 public:
  /// Waits for what this thread's stream was given so far.
  explicit OwnStream(c10::Device device);
  ~OwnStream();

  /// While it lives, what this thread gives to the device goes to the stream.
  class Use {
   public:
    explicit Use(const OwnStream& stream);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

  /// Waits for what it was given, without sleeping: for work of microseconds.
  void wait() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A stream beside those of the thread that trains, on the same device as its home or on another.
/// Between fork() and join() both work at the same time, also where both are captured as one graph.
/// fork() and join() belong to the thread that trains. On the CPU nothing happens.
class BranchStream {
 public:
  BranchStream(c10::Device device, c10::Device home);
  /// Waits for what it was given.
  ~BranchStream();
  BranchStream(BranchStream&&) noexcept;

  /// Work it gets from now on begins when all that this thread's stream of `home` was given so far
  /// is done.
  void fork() const;
  /// Work that this thread's streams get from now on begins when all that it was given is done.
  void join() const;

  /// While it lives, what this thread gives to the device goes to the stream, and copies between
  /// the device and `home` do not meet what other threads give to `home`. May be null: nothing
  /// happens.
  class Use {
   public:
    explicit Use(const BranchStream* stream);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Memory of the host that is copied from and to the device beside its work (pinned).
at::Tensor empty_for_copies(at::IntArrayRef sizes, at::ScalarType type, c10::Device device);

/// Where this thread's work for a device goes, to be handed to other threads.
class StreamHandle {
 public:
  /// That of this thread now.
  explicit StreamHandle(c10::Device device);
  /// Makes it that of the calling thread too.
  void use() const;

 private:
  c10::Device device_;
  std::int64_t id_ = 0;
};

/// Brings batches to a device beside its work: values go to pinned memory, and from there on a
/// stream of copies. Belongs to the thread that gives the device its work, which may be a few
/// batches ahead: a call waits for the work on the batch `depth` calls before.
class Feed {
 public:
  explicit Feed(c10::Device device, std::size_t depth = 3);
  ~Feed();
  Feed(Feed&&) noexcept;

  /// The batch on the device, for work that is given to this thread's stream from now on; strings
  /// and the splits of ragged columns stay on the CPU. Its memory is written again by later calls.
  Batch put(const Batch& batch);
  /// After the work on the last batch was given to the stream.
  void used();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The batch in pinned memory, from where a Feed brings it to a GPU without another copy. Without
/// CUDA it is the batch itself.
Batch pinned(const Batch& batch);

/// Words of device memory that the host writes before every step, without waiting for the device.
class DeviceWords {
 public:
  DeviceWords(c10::Device device, std::size_t count);
  ~DeviceWords();

  /// Where to write those of the next step; what is there is of no step.
  std::span<std::int64_t> next();
  /// Work that this thread's stream gets from now on sees what was written to next().
  void send();
  /// int64 [count] on the device; always the same memory.
  const at::Tensor& tensor() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Work captured once and given to the device again as one piece (a CUDA graph). Belongs to the
/// thread of a StreamScope, or to whichever thread uses an OwnStream, always the same one.
class CapturedWork {
 public:
  /// `others` are the devices of BranchStreams that are captured with it.
  explicit CapturedWork(c10::Device device, std::vector<c10::Device> others = {});
  ~CapturedWork();

  /// Captures what `work` gives to this thread's stream, and to those that it forks and joins;
  /// nothing of it is done. Tensors that it leaves behind are written by every replay(). Returns
  /// why it could not be captured, if so: then all is as it was, except for what `work` did on the
  /// host.
  std::optional<std::string> capture(const std::function<void()>& work);
  void replay();
  /// Forgets what was captured.
  void drop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A place in the work of this thread's stream, to be asked whether the device has come by it. What
/// is given to the CPU is done at once.
class DeviceMark {
 public:
  explicit DeviceMark(c10::Device device);
  ~DeviceMark();
  DeviceMark(DeviceMark&&) noexcept;

  /// After what was given so far.
  void set();
  bool is_passed() const;
  /// Work that this thread's stream gets from now on begins when the device has come by.
  void hold_stream() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A stream beside that of a thread, whose work goes first where both have some for the device.
class SideStream {
 public:
  explicit SideStream(c10::Device device);
  ~SideStream();

  /// Runs `work`, whose device work goes to this stream, and this thread's own continues after it.
  /// Its beginning is not held by what the thread's stream has: see DeviceMark::hold_stream().
  void run(const std::function<void()>& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Waits until the device has done what this thread's stream was given so far.
void wait_for_device(c10::Device device);

/// Seeds libtorch's generator of this device.
void seed_device_generator(c10::Device device, std::uint64_t seed);

}  // namespace muster
