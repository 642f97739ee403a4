#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace muster::cli {

/// The progress line of one long piece of work: redrawn a few times a second on a terminal, nothing
/// elsewhere.
class Progress {
 public:
  /// `total` of 0 means unknown: then no share and no time left are shown.
  Progress(std::string label, std::uint64_t total, std::string unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::uint64_t done);
  /// Takes the line off the terminal, for a result to be printed in its place.
  void clear();
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  std::uint64_t total_;
  std::string unit_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_draw_ = start_;
};

/// "1.4 million", "512.0 MB": for people.
std::string human_count(double count);
std::string human_bytes(double bytes);

}  // namespace muster::cli
