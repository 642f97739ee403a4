#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"
#include "muster/data/summary/event.h"
#include "muster/data/summary/hparams.h"

namespace muster {

struct EventWriterOptions {
  /// Comes after the host's name in the file's.
  std::string filename_suffix{};
  /// Longest time until added events become visible to readers.
  std::chrono::milliseconds flush_period = std::chrono::seconds(120);
  /// Events that wait for the writing thread; add() blocks while there are as many.
  std::size_t max_queue = 1000;
};

/// Writes one event file, `events.out.tfevents.<seconds>.<host><suffix>`, from a thread of its own.
/// All functions may be called from any thread; events of one thread keep their order.
///
/// Summaries must never end a training run: a failure to write is logged once as an error, and
/// later events are dropped and counted.
class EventWriter {
 public:
  /// Makes the folder if need be, and the file. Throws what the file system throws.
  explicit EventWriter(const Path& folder, const EventWriterOptions& options = {});
  /// Closes the file if that has not been done.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void add(const Event& event);
  /// The same at this moment.
  void add(Summary summary, std::int64_t step);

  void add_scalar(std::string tag, double value, std::int64_t step);
  /// NaN and infinite values are skipped, with a warning that says how many.
  void add_histogram(std::string tag, std::span<const float> values, std::int64_t step);
  void add_histogram(std::string tag, std::span<const double> values, std::int64_t step);
  void add_image(std::string tag, std::span<const std::uint8_t> samples, const ImageShape& shape,
                 std::int64_t step);
  /// Scaled as normalize_image() does.
  void add_image(std::string tag, std::span<const float> samples, const ImageShape& shape,
                 std::int64_t step);
  void add_text(std::string tag, std::string text, std::int64_t step);
  void add_tensor(std::string tag, NumberTensor tensor, std::int64_t step);
  /// The columns of the experiment and this run's row.
  void add_hparams(std::span<const HParam> hparams, std::span<const HParamMetric> metrics,
                   const std::string& group_name = "");
  void add_hparams_end(bool success);
  void add_session(SessionMark mark, std::int64_t step);
  /// A serialized GraphDef.
  void add_graph(std::string graph_def, std::int64_t step = 0);

  /// Returns when all that was added before is with the file system.
  void flush();
  /// Flushes and ends the file; what is added later is dropped with a warning.
  void close();

  const Path& path() const;
  /// Events that were lost to a failure.
  std::uint64_t dropped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
