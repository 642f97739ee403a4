#include "muster/serving/core/statistics.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster::serving {
namespace {

constexpr std::size_t kMostUnknownModels = 64;

double microseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}
double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}
std::uint64_t nanoseconds(std::chrono::steady_clock::duration time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

std::string number(double value) { return fmt::format("{:.6g}", value); }

// TensorFlow Serving spells the methods of REST in lower case.
std::string api_name(std::string_view method, std::string_view entrypoint) {
  std::string name(method);
  if (entrypoint == "REST") {
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return name;
}

void write_histogram(const std::string& name, const std::string& labels, const Histogram& histogram,
                     std::string& out) {
  const auto cumulative = histogram.cumulative();
  const std::string comma = labels.empty() ? "" : ",";
  for (std::size_t i = 0; i < cumulative.size(); ++i) {
    const std::string bound =
        i < histogram.bounds().size() ? number(histogram.bounds()[i]) : "+Inf";
    out +=
        fmt::format("{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma, bound, cumulative[i]);
  }
  out += fmt::format("{}_sum{{{}}} {}\n", name, labels, histogram.sum());
  out += fmt::format("{}_count{{{}}} {}\n", name, labels, histogram.count());
}

Histogram latency_seconds() { return {0.00005, 2, 20}; }
Histogram tf_latency() { return {10, 1.8, 33}; }
Histogram tf_counts() { return {1, 2, 15}; }

}  // namespace

std::string label_text(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

Histogram::Histogram(double scale, double growth, std::size_t bounds) {
  for (std::size_t i = 0; i < bounds; ++i, scale *= growth) bounds_.push_back(scale);
  counts_.resize(bounds + 1);
}

void Histogram::add(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  ++count_;
  sum_ += value;
}

std::vector<std::uint64_t> Histogram::cumulative() const {
  std::vector<std::uint64_t> sums;
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts_) sums.push_back(sum += count);
  return sums;
}

Statistics::Series::Series()
    : latency(latency_seconds()),
      queued(latency_seconds()),
      computed(latency_seconds()),
      batch_rows(1, 2, 12) {}

Statistics::TensorFlowSeries::TensorFlowSeries() : latency(tf_latency()), runtime(tf_latency()) {}

Statistics::Statistics() : tf_batches_(1, 2, 14), tf_queued_(100, 1.2, 52) {}

Statistics::Series& Statistics::series_of(const CallRecord& call) {
  const std::tuple<std::string_view, std::int64_t, std::string_view, std::string_view,
                   std::string_view>
      key(call.model, call.version, call.signature, call.method, call.entrypoint);
  const auto found = series_.find(key);
  if (found != series_.end()) return found->second;
  Series& series =
      series_[{call.model, call.version, call.signature, call.method, call.entrypoint}];
  series.version = &versions_[{call.model, call.version}];
  series.tf = &tf_latency_[{call.model, call.method, call.entrypoint}];
  series.tf_examples = &tf_examples_.try_emplace(call.model, tf_counts(), 0).first->second;
  return series;
}

void Statistics::record(const CallRecord& call) {
  const std::lock_guard lock(mutex_);
  const auto requests =
      tf_requests_.find(std::tuple<std::string_view, ErrorCode>(call.model, call.code));
  if (requests != tf_requests_.end()) {
    ++requests->second;
  } else {
    // Names that no model has come from outside: they must not take memory without end.
    const bool is_kept = call.version >= 0 || tf_requests_.size() < kMostUnknownModels;
    ++tf_requests_[{is_kept ? call.model : std::string(), call.code}];
  }
  if (call.version < 0) return;
  Series& series = series_of(call);
  ++series.codes[call.code];
  series.latency.add(seconds(call.latency));
  VersionCounts& version = *series.version;
  if (call.code != ErrorCode::kOk) {
    ++version.failure;
    version.failure_ns += nanoseconds(call.latency);
    return;
  }
  series.queued.add(seconds(call.queued));
  series.computed.add(seconds(call.computed));
  series.batch_rows.add(static_cast<double>(call.batch_rows));
  ++version.success;
  version.rows += static_cast<std::uint64_t>(call.rows);
  version.executions += call.batch_rows > 0
                            ? static_cast<double>(call.rows) / static_cast<double>(call.batch_rows)
                            : 1.0;
  version.success_ns += nanoseconds(call.latency);
  version.queued_ns += nanoseconds(call.queued);
  version.computed_ns += nanoseconds(call.computed);
  version.last_ms =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())
                                     .count());
  series.tf->latency.add(microseconds(call.latency));
  series.tf->runtime.add(microseconds(call.computed));
  series.tf_examples->first.add(static_cast<double>(call.rows));
  series.tf_examples->second += static_cast<std::uint64_t>(call.rows);
  tf_batches_.add(static_cast<double>(call.batch_rows));
  tf_queued_.add(microseconds(call.queued));
}

VersionCounts Statistics::counts(std::string_view model, std::int64_t version) const {
  const std::lock_guard lock(mutex_);
  const auto found = versions_.find({std::string(model), version});
  return found == versions_.end() ? VersionCounts() : found->second;
}

void Statistics::retain(
    const std::function<bool(const std::string& model, std::int64_t version)>& keep) {
  const std::lock_guard lock(mutex_);
  std::erase_if(series_, [&](const auto& row) {
    return !keep(std::get<0>(row.first), std::get<1>(row.first));
  });
  std::erase_if(versions_,
                [&](const auto& row) { return !keep(row.first.first, row.first.second); });
}

std::string Statistics::tensorflow_page() const {
  const std::lock_guard lock(mutex_);
  std::string out = "# TYPE :tensorflow:serving:request_count counter\n";
  for (const auto& [key, count] : tf_requests_) {
    out += fmt::format(":tensorflow:serving:request_count{{model_name=\"{}\",status=\"{}\"}} {}\n",
                       label_text(std::get<0>(key)), name_of(std::get<1>(key)), count);
  }
  const auto labels_of = [](const auto& key) {
    return fmt::format("model_name=\"{}\",API=\"{}\"", label_text(std::get<0>(key)),
                       api_name(std::get<1>(key), std::get<2>(key)));
  };
  out += "# TYPE :tensorflow:serving:request_latency histogram\n";
  for (const auto& [key, series] : tf_latency_) {
    write_histogram(":tensorflow:serving:request_latency",
                    fmt::format("{},entrypoint=\"{}\"", labels_of(key), std::get<2>(key)),
                    series.latency, out);
  }
  out += "# TYPE :tensorflow:serving:runtime_latency histogram\n";
  for (const auto& [key, series] : tf_latency_) {
    write_histogram(":tensorflow:serving:runtime_latency",
                    fmt::format("{},runtime=\"TF1\"", labels_of(key)), series.runtime, out);
  }
  out += "# TYPE :tensorflow:serving:request_example_counts histogram\n";
  for (const auto& [model, examples] : tf_examples_) {
    write_histogram(":tensorflow:serving:request_example_counts",
                    fmt::format("model=\"{}\"", label_text(model)), examples.first, out);
  }
  out += "# TYPE :tensorflow:serving:request_example_count_total counter\n";
  for (const auto& [model, examples] : tf_examples_) {
    out += fmt::format(":tensorflow:serving:request_example_count_total{{model=\"{}\"}} {}\n",
                       label_text(model), examples.second);
  }
  out += "# TYPE :tensorflow:serving:batching_session:processed_batch_size histogram\n";
  write_histogram(":tensorflow:serving:batching_session:processed_batch_size", "", tf_batches_,
                  out);
  out += "# TYPE :tensorflow:serving:batching_session:queuing_latency histogram\n";
  write_histogram(":tensorflow:serving:batching_session:queuing_latency",
                  "thread_pool_name=\"model_server_batch_threads\"", tf_queued_, out);
  return out;
}

std::string Statistics::page(const std::vector<Gauge>& gauges) const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const Gauge& gauge : gauges) {
    out +=
        fmt::format("# HELP {} {}\n# TYPE {} {}\n", gauge.name, gauge.help, gauge.name, gauge.type);
    for (const auto& [labels, value] : gauge.values) {
      out += labels.empty() ? fmt::format("{} {}\n", gauge.name, value)
                            : fmt::format("{}{{{}}} {}\n", gauge.name, labels, value);
    }
  }
  const auto labels_of = [](const SeriesKey& key) {
    return fmt::format(
        "model=\"{}\",version=\"{}\",signature=\"{}\",method=\"{}\",entrypoint=\"{}\"",
        label_text(std::get<0>(key)), std::get<1>(key), label_text(std::get<2>(key)),
        std::get<3>(key), std::get<4>(key));
  };
  out += "# HELP muster_requests_total Requests to models that are served, by their status.\n";
  out += "# TYPE muster_requests_total counter\n";
  for (const auto& [key, series] : series_) {
    for (const auto& [code, count] : series.codes) {
      out += fmt::format("muster_requests_total{{{},code=\"{}\"}} {}\n", labels_of(key),
                         name_of(code), count);
    }
  }
  const auto write_all = [&](const char* name, const char* help, Histogram Series::*part) {
    out += fmt::format("# HELP {} {}\n# TYPE {} histogram\n", name, help, name);
    for (const auto& [key, series] : series_) {
      write_histogram(name, labels_of(key), series.*part, out);
    }
  };
  write_all("muster_request_duration_seconds", "From the whole request to its answer.",
            &Series::latency);
  write_all("muster_request_queue_duration_seconds", "In the queue of its signature.",
            &Series::queued);
  write_all("muster_request_compute_duration_seconds", "Computing its batch.", &Series::computed);
  write_all("muster_batch_rows", "Rows of the batch that a request was part of.",
            &Series::batch_rows);
  return out;
}

}  // namespace muster::serving
