#include "muster/cli/progress.h"

#include <fmt/core.h>

#include <utility>

#include "muster/base/log.h"

namespace muster::cli {

Progress::Progress(std::string label, std::uint64_t total, std::string unit)
    : label_(std::move(label)), total_(total), unit_(std::move(unit)) {}

Progress::~Progress() { clear(); }

void Progress::clear() { log::progress(""); }

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Progress::update(std::uint64_t done) {
  const auto now = Clock::now();
  if (now < next_draw_ || !log::shows_progress()) return;
  next_draw_ = now + std::chrono::milliseconds(200);
  const double rate = static_cast<double>(done) / seconds();
  std::string line =
      fmt::format("{}: {} {}", label_, human_count(static_cast<double>(done)), unit_);
  if (total_ > 0 && done > 0) {
    const double share = static_cast<double>(done) / static_cast<double>(total_);
    line += fmt::format(", {:.0f} %, {:.0f} s left", 100 * share,
                        static_cast<double>(total_ - done) / rate);
  }
  log::progress(line + fmt::format(", {} {}/s", human_count(rate), unit_));
}

std::string human_count(double count) {
  if (count >= 1e9) return fmt::format("{:.2f} billion", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f} million", count / 1e6);
  return fmt::format("{:.0f}", count);
}

std::string human_bytes(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  if (bytes >= 1e3) return fmt::format("{:.1f} kB", bytes / 1e3);
  return fmt::format("{:.0f} B", bytes);
}

}  // namespace muster::cli
