#include "muster/data/summary/event_writer.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/data/records/record_writer.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

// Events are worth a glance after a crash of the process, which the page cache survives, but not a
// sync of the disk.
RecordWriterOptions record_options() { return {.atomic = false, .durable = false}; }

/// A file that was not there before, and its name. Names count seconds: a second writer of the same
/// second takes a later one instead of the other's file.
std::pair<Path, RecordWriter> create_file(const Path& folder, const std::string& suffix) {
  static std::mutex naming;
  const std::lock_guard lock(naming);
  file_system_for(folder).create_directories(folder);
  for (auto seconds = static_cast<std::int64_t>(now_seconds());; ++seconds) {
    Path path =
        folder / fmt::format("events.out.tfevents.{:010}.{}{}", seconds, host_name(), suffix);
    if (!file_exists(path)) {
      RecordWriter writer(path, record_options());
      return {std::move(path), std::move(writer)};
    }
  }
}

void check(const EventWriterOptions& options) {
  if (options.flush_period <= std::chrono::milliseconds(0)) {
    throw InvalidArgument("the flush period of an event file must be positive: {} ms",
                          options.flush_period.count());
  }
  if (options.max_queue == 0) throw InvalidArgument("the queue of an event file must hold events");
  if (options.filename_suffix.find('/') != std::string::npos) {
    throw InvalidArgument("the suffix of an event file must not contain '/': {}",
                          options.filename_suffix);
  }
}

}  // namespace

struct EventWriter::Impl {
  Impl(const Path& folder, const EventWriterOptions& writer_options)
      : options(writer_options), file(create_file(folder, options.filename_suffix)) {
    file.second.append(encode_event(
        {.wall_time = now_seconds(), .what = FileVersion{std::string(kEventFileVersion)}}));
    file.second.flush();
    thread = std::jthread([this] { run(); });
  }

  // Used by the constructor, then by the thread alone.
  const EventWriterOptions options;
  std::pair<Path, RecordWriter> file;
  /// Events that were appended since the last flush.
  std::uint64_t unflushed = 0;
  Clock::time_point next_flush = Clock::now() + options.flush_period;

  mutable std::mutex mutex;
  std::condition_variable work;
  std::condition_variable done;
  std::vector<std::string> pending;
  /// Numbers of events: taken in, asked to be flushed, and with the file system or lost.
  std::uint64_t added = 0;
  std::uint64_t wanted = 0;
  std::uint64_t settled = 0;
  std::uint64_t dropped = 0;
  bool closing = false;
  bool failed = false;
  bool warned_of_late_events = false;
  std::mutex joining;
  // Last: it is joined before anything it uses goes.
  std::jthread thread;

  void push(std::string bytes) {
    std::unique_lock lock(mutex);
    wait(
        done, lock, Deadline::never(), [this] { return "room in the queue of " + name(); },
        [this] { return closing || pending.size() < options.max_queue; });
    if (closing) return warn_of_late_event();
    pending.push_back(std::move(bytes));
    ++added;
    lock.unlock();
    work.notify_one();
  }

  void warn_of_late_event() {
    ++dropped;
    if (std::exchange(warned_of_late_events, true)) return;
    log::warning("an event came after its file was closed, and was dropped path={}", name());
  }

  void flush() {
    std::unique_lock lock(mutex);
    const std::uint64_t goal = added;
    wanted = std::max(wanted, goal);
    work.notify_one();
    wait(
        done, lock, Deadline::never(), [this] { return "the flush of " + name(); },
        [this, goal] { return settled >= goal; });
  }

  void close() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    work.notify_one();
    done.notify_all();
    const std::lock_guard lock(joining);
    if (thread.joinable()) thread.join();
  }

  // The thread ends when all is written and the file is closed.
  void run() {
    for (bool last = false; !last;) {
      std::unique_lock lock(mutex);
      wait_for_work(lock);
      const auto batch = std::exchange(pending, {});
      last = closing;
      const bool flush_now = last || wanted > settled || Clock::now() >= next_flush;
      const std::uint64_t reached = added;
      lock.unlock();
      done.notify_all();  // There is room again.
      write(batch, flush_now, last);
      if (!flush_now) continue;
      lock.lock();
      settled = reached;
      lock.unlock();
      done.notify_all();
    }
  }

  // Idle is no stall, so no wait is reported here.
  void wait_for_work(std::unique_lock<std::mutex>& lock) {
    const auto ready = [this] { return !pending.empty() || closing || wanted > settled; };
    if (unflushed == 0) {
      work.wait(lock, ready);
    } else {
      work.wait_until(lock, next_flush, ready);
    }
  }

  void write(const std::vector<std::string>& batch, bool flush_now, bool last) {
    if (failed) return count_dropped(batch.size());
    try {
      unflushed += batch.size();
      for (const auto& bytes : batch) file.second.append(bytes);
      if (last) file.second.close();
    } catch (...) {
      return give_up(describe(std::current_exception()).message);
    }
    if (!flush_now) return;
    if (!last && !flush_file()) return;
    unflushed = 0;
    next_flush = Clock::now() + options.flush_period;
  }

  // False where nothing has become visible.
  bool flush_file() {
    try {
      file.second.flush();
      return true;
    } catch (const Error& error) {
      const bool is_away =
          error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kDeadlineExceeded;
      if (!is_away) {
        give_up(error.what());
        return false;
      }
      // A store holds back what it could not take, so the next flush brings it.
      log::warning("summaries could not be written, and are kept until the next flush path={}: {}",
                   name(), error.what());
      next_flush = Clock::now() + options.flush_period;
      return false;
    }
  }

  void count_dropped(std::uint64_t events) {
    const std::lock_guard lock(mutex);
    dropped += events;
  }

  // Records after one that was written in part cannot be read, so none follows it.
  void give_up(const std::string& why) {
    failed = true;
    count_dropped(std::exchange(unflushed, 0));
    log::error(
        "summaries are no longer written, training goes on; free the disk and restart to have them "
        "again path={}: {}",
        name(), why);
    try {
      file.second.close();
    } catch (const Error&) {  // Told above; this frees the file.
    }
  }

  std::string name() const { return file.first.string(); }
};

EventWriter::EventWriter(const Path& folder, const EventWriterOptions& options) {
  check(options);
  impl_ = std::make_unique<Impl>(folder, options);
}

EventWriter::~EventWriter() { close(); }

void EventWriter::add(const Event& event) { impl_->push(encode_event(event)); }

void EventWriter::add(Summary summary, std::int64_t step) {
  add(Event{.wall_time = now_seconds(), .step = step, .what = std::move(summary)});
}

void EventWriter::add_scalar(std::string tag, double value, std::int64_t step) {
  add(Summary{{.tag = std::move(tag), .data = static_cast<float>(value)}}, step);
}

namespace {

template <typename T>
Summary histogram_summary(std::string tag, std::span<const T> values, std::int64_t step) {
  Histogram histogram;
  histogram.add(values);
  if (histogram.non_finite() > 0) {
    log::warning("a histogram skips NaN and infinite values tag={} step={} skipped={} of={}", tag,
                 step, histogram.non_finite(), values.size());
  }
  return {{.tag = std::move(tag), .data = histogram.data()}};
}

}  // namespace

void EventWriter::add_histogram(std::string tag, std::span<const float> values, std::int64_t step) {
  add(histogram_summary(std::move(tag), values, step), step);
}

void EventWriter::add_histogram(std::string tag, std::span<const double> values,
                                std::int64_t step) {
  add(histogram_summary(std::move(tag), values, step), step);
}

void EventWriter::add_image(std::string tag, std::span<const std::uint8_t> samples,
                            const ImageShape& shape, std::int64_t step) {
  add(Summary{{.tag = std::move(tag), .data = ImageData{shape, encode_png(samples, shape)}}}, step);
}

void EventWriter::add_image(std::string tag, std::span<const float> samples,
                            const ImageShape& shape, std::int64_t step) {
  add_image(std::move(tag), normalize_image(samples, shape), shape, step);
}

void EventWriter::add_text(std::string tag, std::string text, std::int64_t step) {
  add(Summary{text_summary(std::move(tag), std::move(text))}, step);
}

void EventWriter::add_tensor(std::string tag, NumberTensor tensor, std::int64_t step) {
  add(Summary{{.tag = std::move(tag), .data = std::move(tensor)}}, step);
}

void EventWriter::add_hparams(std::span<const HParam> hparams,
                              std::span<const HParamMetric> metrics,
                              const std::string& group_name) {
  const double time = now_seconds();
  add(Summary{hparams_experiment(hparams, metrics, time)}, 0);
  add(Summary{hparams_session_start(hparams, group_name, time)}, 0);
}

void EventWriter::add_hparams_end(bool success) {
  add(Summary{hparams_session_end(success, now_seconds())}, 0);
}

void EventWriter::add_session(SessionMark mark, std::int64_t step) {
  add(Event{.wall_time = now_seconds(), .step = step, .what = std::move(mark)});
}

void EventWriter::add_graph(std::string graph_def, std::int64_t step) {
  add(Event{.wall_time = now_seconds(), .step = step, .what = GraphBytes{std::move(graph_def)}});
}

void EventWriter::flush() { impl_->flush(); }

void EventWriter::close() { impl_->close(); }

const Path& EventWriter::path() const { return impl_->file.first; }

std::uint64_t EventWriter::dropped() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->dropped;
}

}  // namespace muster
