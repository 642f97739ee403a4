#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "muster/base/local_time.h"
#include "muster/serving/protocols/tensorflow/rotated_records_internal.h"

namespace muster::serving {
namespace {

constexpr std::string_view kRecordedPrefix = "requests-";
constexpr std::string_view kRecordedSuffix = ".tfrecord";
// Length and checksums of a record.
constexpr std::uint64_t kFrameBytes = 16;

}  // namespace

RotatedRecords::RotatedRecords(Path folder, const Limits& limits)
    : folder_(std::move(folder)), limits_(limits) {}

void RotatedRecords::append(std::string_view record) {
  const std::uint64_t bytes = record.size() + kFrameBytes;
  if (file_ && written_ + bytes > limits_.file_bytes) close();
  try {
    if (!file_) open_next();
    file_->append(record);
    written_ += bytes;
  } catch (...) {
    file_.reset();
    throw;
  }
}

void RotatedRecords::flush() {
  if (file_) file_->flush();
}

void RotatedRecords::close() {
  if (!file_) return;
  // It is gone also where closing it fails.
  RecordWriter last = std::move(*file_);
  file_.reset();
  last.close();
}

void RotatedRecords::open_next() {
  file_system_for(folder_).create_directories(folder_);
  remove_old();
  const std::string time = local_time(std::chrono::system_clock::now(), "%Y%m%dT%H%M%S");
  const Path path = folder_ / fmt::format("{}{}-{}-{:06}{}", kRecordedPrefix, time, ::getpid(),
                                          next_number_++, kRecordedSuffix);
  file_.emplace(path, RecordWriterOptions{.atomic = false, .durable = false});
  written_ = 0;
}

// Names are in the order of time.
void RotatedRecords::remove_old() const {
  FileSystem& files = file_system_for(folder_);
  std::uint64_t total = limits_.file_bytes;
  std::vector<std::pair<Path, std::uint64_t>> recorded;
  for (const std::string& name : files.list(folder_)) {
    if (!name.starts_with(kRecordedPrefix) || !name.ends_with(kRecordedSuffix)) continue;
    const auto status = files.status(folder_ / name);
    if (!status || status->is_directory) continue;
    recorded.emplace_back(folder_ / name, status->size_bytes);
    total += status->size_bytes;
  }
  for (const auto& [path, bytes] : recorded) {
    if (total <= limits_.folder_bytes) return;
    files.remove(path);
    total -= bytes;
  }
}

}  // namespace muster::serving
