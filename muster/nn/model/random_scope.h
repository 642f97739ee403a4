#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace muster {

/// A key for a name, such as a variable's: the same on every machine, independent of its siblings'.
std::uint64_t derive_key(std::uint64_t key, std::string_view name);

/// Tells the modules that this thread calls which random numbers are theirs: everything they draw
/// is a function of seed, step, replica, the layer's name and how often it drew in this scope, so
/// replicas may run at the same time and a step can be retried. The loop opens one around a
/// replica's forward; scopes nest.
class RandomScope {
 public:
  RandomScope(std::uint64_t seed, std::int64_t step, std::int64_t replica);
  /// For work that is captured and replayed in other steps: the scope's key is in device
  /// memory, where every step writes its own.
  explicit RandomScope(const std::uint64_t* key_on_device);
  /// For work that is recorded and run again in other steps (train/compiler): the scope's key is
  /// what `key_tensor` holds, int64 [1], in the same place of every recording.
  RandomScope(std::uint64_t key, at::Tensor key_tensor);
  /// How far the draws of a scope are.
  struct Position {
    std::uint64_t key = 0;
    const std::uint64_t* key_on_device = nullptr;
    at::Tensor key_tensor{};
    std::unordered_map<std::uint64_t, std::uint64_t> draws{};
  };
  /// Draws what the other scope drew from that position on.
  explicit RandomScope(Position from);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  /// The innermost scope of this thread, or null.
  static RandomScope* current();

  /// The key of a step and replica.
  static std::uint64_t key_of(std::uint64_t seed, std::int64_t step, std::int64_t replica);

  /// The key for the layer's next draw in this scope. `layer` is derive_key(0, name). Throws
  /// FailedPrecondition where the scope's key is in device memory.
  std::uint64_t next_key(std::uint64_t layer);

  /// The same in two steps, for those who draw on a device: next_key() is derive_key(key(), layer,
  /// next_draw(layer)).
  std::uint64_t key() const {
    is_read_by_host_ = true;
    return key_;
  }
  /// Null: key() is it.
  const std::uint64_t* key_on_device() const { return key_on_device_; }
  /// The key for operations that draw by it (muster::dropout_mask); undefined: key() is it.
  const at::Tensor& key_tensor() const { return key_tensor_; }
  /// Whether the host has drawn by the key, so that a recording would draw the same numbers again.
  bool is_read_by_host() const { return is_read_by_host_; }
  std::uint64_t next_draw(std::uint64_t layer) { return draws_[layer]++; }
  Position position() const { return {key_, key_on_device_, key_tensor_, draws_}; }

 private:
  std::uint64_t key_ = 0;
  const std::uint64_t* key_on_device_ = nullptr;
  at::Tensor key_tensor_;
  mutable bool is_read_by_host_ = false;
  std::unordered_map<std::uint64_t, std::uint64_t> draws_;
  RandomScope* outer_;
};

}  // namespace muster
