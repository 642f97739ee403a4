#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster::testing {

/// Requests to put a server under load with.
struct HttpLoad {
  /// "127.0.0.1:port".
  std::string address{};
  /// Whole, with its header. Sent again and again on connections that are kept.
  std::string request{};
  std::size_t connections = 1;
  /// Requests a second, whether the server keeps up or not, as long as a connection is free; zero:
  /// each connection asks again as soon as it is answered.
  double rate = 0;
  std::chrono::milliseconds time{1000};
};

struct HttpLoadResult {
  /// How many answers had each status.
  std::map<int, std::uint64_t> statuses{};
  /// Connections that ended without an answer.
  std::uint64_t broken = 0;
  /// Answers whose body is not the first one's of the same status.
  std::uint64_t different = 0;
  /// Times of the answers with status 200, ascending.
  std::vector<double> seconds{};
  double lasted = 0;
  /// 200s that came by then.
  std::uint64_t in_time = 0;

  /// 200s a second.
  double goodput() const;
  /// Quantile of the times of 200s; 0 where there are none. `share` from 0 to 1.
  double quantile(double share) const;
};

/// Loads a server from one thread, and waits for the last answers.
HttpLoadResult run(const HttpLoad& load);

}  // namespace muster::testing
