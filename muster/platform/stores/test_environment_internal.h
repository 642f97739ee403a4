#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "muster/base/random.h"
#include "muster/platform/stores/http_client.h"

namespace muster::stores {

constexpr std::size_t kMiB = std::size_t{1} << 20;

inline const RetryPolicy kQuickRetries{.most_tries = 20,
                                       .first_wait = std::chrono::milliseconds(1),
                                       .longest_wait = std::chrono::milliseconds(3)};

/// Sets variables of the environment for a test, and puts them back.
class Environment {
 public:
  Environment() = default;
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  void set(const std::string& name, const std::optional<std::string>& value) {
    const char* old = std::getenv(name.c_str());
    before_.emplace(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

inline std::string random_bytes(std::size_t size, std::uint64_t seed = 1) {
  Random random(seed);
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i + 4 <= size; i += 4) {
    const std::uint32_t value = random.next_u32();
    std::memcpy(bytes.data() + i, &value, 4);
  }
  return bytes;
}

}  // namespace muster::stores
