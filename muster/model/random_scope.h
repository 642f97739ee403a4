#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace muster {

/// A key for a name, such as a variable's: the same on every machine, independent of its siblings'.
std::uint64_t derive_key(std::uint64_t key, std::string_view name);

/// Tells the modules that this thread calls which random numbers are theirs: everything they draw
/// is a function of seed, step, replica, the layer's name and how often it drew in this scope, so
/// replicas may run at the same time and a step can be done again. The loop opens one around a
/// replica's forward; scopes nest.
class RandomScope {
 public:
  RandomScope(std::uint64_t seed, std::int64_t step, std::int64_t replica);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  /// The innermost scope of this thread, or null.
  static RandomScope* current();

  /// The key for the layer's next draw in this scope. `layer` is derive_key(0, name).
  std::uint64_t next_key(std::uint64_t layer);

 private:
  std::uint64_t key_;
  std::unordered_map<std::uint64_t, std::uint64_t> draws_;
  RandomScope* outer_;
};

}  // namespace muster
