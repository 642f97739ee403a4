#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/serving/core/request_observer.h"

namespace muster::serving {

struct RecordingOptions {
  /// A folder per model is made here; empty: requests are kept for warm-up files alone.
  Path folder{};
  /// Part of the requests, more than 0, at most 1.
  double share = 0.01;
  /// Limit for the files of a model; the oldest are removed.
  std::uint64_t most_bytes = std::uint64_t{1} << 30;
  /// Limit for one file.
  std::uint64_t file_bytes = std::uint64_t{64} << 20;
  /// Requests that wait to be written, in bytes; others are dropped, and counted.
  std::uint64_t most_waiting_bytes = std::uint64_t{64} << 20;
  /// Requests of the warm-up file that a version gets which has none; 0: none is written.
  std::size_t warm_up_requests = 0;
};

/// Writes a share of the answered requests, and their answers, to TFRecord files of TensorFlow
/// Serving's PredictionLog, in a thread of its own. Any thread may call it.
class RequestRecorder final : public RequestObserver {
 public:
  /// Throws InvalidArgument for options that cannot be.
  explicit RequestRecorder(const RecordingOptions& options);
  ~RequestRecorder() override;

  bool wants(const ModelVersion& version, std::string_view signature) override;
  void see(std::shared_ptr<const AnsweredRequest> request) noexcept override;
  /// Returns when all that it has seen is in files.
  void close() override;
  std::vector<Gauge> gauges() const override;

  /// A version lies in this folder: where no warm-up file is there, the version's next requests,
  /// each different from the others, become one.
  void note_version(const ModelVersion& version, const Path& dir);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::serving
