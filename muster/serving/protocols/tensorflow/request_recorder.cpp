#include "muster/serving/protocols/tensorflow/request_recorder.h"

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/serving.pb.h"
#include "muster/serving/protocols/tensorflow/rotated_records_internal.h"
#include "muster/serving/protocols/tensorflow/tensor_proto_internal.h"
#include "muster/serving/protocols/tensorflow/warm_up.h"

namespace muster::serving {
namespace {

namespace wire = tensorflow::serving;

constexpr std::uint64_t kMostWarmUpBytes = std::uint64_t{64} << 20;
constexpr std::chrono::minutes kComplaintPause{1};

std::uint64_t bytes_of(const Tensors& tensors) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += name.size() + tensor.bytes.size();
    for (const std::string& text : tensor.strings) bytes += sizeof(std::string) + text.size();
  }
  return bytes;
}

// Without a version: it is to be asked of later ones, too.
void write_request(const AnsweredRequest& request, wire::PredictionLog& log) {
  auto& asked = *log.mutable_predict_log()->mutable_request();
  asked.mutable_model_spec()->set_name(request.version->model());
  asked.mutable_model_spec()->set_signature_name(request.signature);
  for (const auto& [name, tensor] : request.inputs) {
    write_tensor(tensor, /*raw=*/true, (*asked.mutable_inputs())[name]);
  }
}

std::string warm_up_record(const AnsweredRequest& request) {
  wire::PredictionLog log;
  write_request(request, log);
  return log.SerializeAsString();
}

std::string log_record(const AnsweredRequest& request, double share) {
  wire::PredictionLog log;
  write_request(request, log);
  wire::ModelSpec& spec = *log.mutable_log_metadata()->mutable_model_spec();
  spec = log.predict_log().request().model_spec();
  spec.mutable_version()->set_value(request.version->number());
  log.mutable_log_metadata()->mutable_sampling_config()->set_sampling_rate(share);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  log.mutable_log_metadata()->set_timestamp_secs(
      std::chrono::duration_cast<std::chrono::seconds>(now).count());
  auto& answered = *log.mutable_predict_log()->mutable_response();
  *answered.mutable_model_spec() = spec;
  for (const auto& [name, tensor] : request.outputs) {
    write_tensor(tensor, /*raw=*/true, (*answered.mutable_outputs())[name]);
  }
  return log.SerializeAsString();
}

// Names of models are no paths, but may be these.
Path folder_of_model(const Path& folder, const std::string& model) {
  return folder / (model == "." || model == ".." ? "_" + model : model);
}

/// Requests that are to become the warm-up file of a version.
struct WarmUpDraft {
  Path path{};
  std::set<std::string> records{};
  std::uint64_t bytes = 0;
};

// A file that another process has written meanwhile stays.
void write_warm_up(const WarmUpDraft& draft) {
  if (file_exists(draft.path)) return;
  file_system_for(draft.path).create_directories(draft.path.parent_path());
  RecordWriter writer(draft.path);
  for (const std::string& record : draft.records) writer.append(record);
  writer.close();
  log::info("wrote warm-up file path={} records={}", draft.path.string(), draft.records.size());
}

RecordingOptions checked_recording(RecordingOptions options) {
  if (!(options.share > 0 && options.share <= 1)) {
    throw InvalidArgument("the share of requests to record must be more than 0 and at most 1: {}",
                          options.share);
  }
  if (options.file_bytes == 0 || options.file_bytes > options.most_bytes) {
    throw InvalidArgument(
        "a file of recorded requests must have 1 to {} bytes, the limit for all: {}",
        options.most_bytes, options.file_bytes);
  }
  if (options.warm_up_requests > std::size_t{kMostWarmUpRecords}) {
    throw InvalidArgument("a warm-up file has at most {} requests: {}", kMostWarmUpRecords,
                          options.warm_up_requests);
  }
  return options;
}

}  // namespace

struct RequestRecorder::Impl {
  enum Result : std::size_t { kWritten, kDropped, kFailed, kResults };
  static constexpr std::array<const char*, kResults> kNames{"written", "dropped", "failed"};
  using VersionName = std::pair<std::string, std::int64_t>;
  struct Waiting {
    std::shared_ptr<const AnsweredRequest> request;
    std::uint64_t bytes;
  };

  explicit Impl(const RecordingOptions& given) : options(checked_recording(given)) {}

  // In the thread of the writer.
  void write_all(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [this] { return !waiting.empty(); })) {
      Waiting next = std::move(waiting.front());
      waiting.pop_front();
      const bool is_last = waiting.empty();
      lock.unlock();
      record(*next.request, is_last);
      // No version is held when nothing waits.
      next.request.reset();
      lock.lock();
      waiting_bytes -= next.bytes;
      if (waiting_bytes == 0) idle.notify_all();
    }
  }

  void record(const AnsweredRequest& request, bool is_last) {
    const std::string& model = request.version->model();
    if (!options.folder.empty()) {
      count(model, attempt([&] {
              files_of(model).append(log_record(request, options.share));
              if (is_last) flush_all();
            })
                       ? kWritten
                       : kFailed);
    }
    attempt([&] { add_to_warm_up(request); });
  }

  // False when it failed. A disk that is full is complained about now and then, not every time.
  template <typename Act>
  bool attempt(const Act& act) {
    try {
      act();
      return true;
    } catch (...) {
      const auto now = std::chrono::steady_clock::now();
      if (!complained || now - *complained > kComplaintPause) {
        complained = now;
        log::warning("requests are not recorded: {}",
                     muster::describe(std::current_exception()).message);
      }
      return false;
    }
  }

  RotatedRecords& files_of(const std::string& model) {
    const auto found = files.find(model);
    if (found != files.end()) return found->second;
    return files
        .try_emplace(model, folder_of_model(options.folder, model),
                     RotatedRecords::Limits{.file_bytes = options.file_bytes,
                                            .folder_bytes = options.most_bytes})
        .first->second;
  }

  void flush_all() {
    for (auto& [model, of_model] : files) of_model.flush();
  }

  void add_to_warm_up(const AnsweredRequest& request) {
    const VersionName name{request.version->model(), request.version->number()};
    std::optional<WarmUpDraft> whole;
    {
      const std::lock_guard lock(mutex);
      const auto draft = drafts.find(name);
      if (draft == drafts.end()) return;
      std::string record = warm_up_record(request);
      const std::uint64_t bytes = record.size();
      if (draft->second.records.insert(std::move(record)).second) draft->second.bytes += bytes;
      if (draft->second.records.size() < options.warm_up_requests &&
          draft->second.bytes < kMostWarmUpBytes) {
        return;
      }
      whole = std::move(draft->second);
      drafts.erase(draft);
    }
    write_warm_up(*whole);
  }

  void count(const std::string& model, Result result) {
    const std::lock_guard lock(mutex);
    ++counts[model][result];
  }

  bool is_drawn() {
    if (options.share >= 1) return true;
    constexpr double kValues = 4294967296.0;
    return philox(key, draws++, 0)[0] < options.share * kValues;
  }

  void close() {
    {
      std::unique_lock lock(mutex);
      is_closed = true;
      idle.wait(lock, [this] { return waiting_bytes == 0; });
    }
    writer.request_stop();
    if (writer.joinable()) writer.join();
    for (auto& of_model : files) attempt([&] { of_model.second.close(); });
    // Better a few requests than none.
    for (const auto& of_version : std::exchange(drafts, {})) {
      const WarmUpDraft& draft = of_version.second;
      if (!draft.records.empty()) attempt([&] { write_warm_up(draft); });
    }
  }

  const RecordingOptions options;
  const std::uint64_t key = std::random_device()();
  std::atomic<std::uint64_t> draws{0};

  // For the thread of the writer alone, while it runs.
  std::map<std::string, RotatedRecords> files{};
  std::optional<std::chrono::steady_clock::time_point> complained{};

  mutable std::mutex mutex{};
  std::condition_variable_any changed{};
  std::condition_variable idle{};
  // Under the mutex.
  std::deque<Waiting> waiting{};
  std::uint64_t waiting_bytes = 0;
  bool is_closed = false;
  std::map<VersionName, WarmUpDraft> drafts{};
  std::map<std::string, std::array<std::uint64_t, kResults>> counts{};

  // Last: it ends before what it uses.
  std::jthread writer{};
};

RequestRecorder::RequestRecorder(const RecordingOptions& options)
    : impl_(std::make_unique<Impl>(options)) {
  impl_->writer =
      std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->write_all(stop); });
}

RequestRecorder::~RequestRecorder() { impl_->close(); }

bool RequestRecorder::wants(const ModelVersion& version, std::string_view /*signature*/) {
  if (impl_->options.folder.empty()) {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->drafts.contains({version.model(), version.number()})) return false;
  }
  return impl_->is_drawn();
}

void RequestRecorder::see(std::shared_ptr<const AnsweredRequest> request) noexcept {
  // Never 0, which means that none waits.
  const std::uint64_t bytes = 1 + bytes_of(request->inputs) + bytes_of(request->outputs);
  const std::lock_guard lock(impl_->mutex);
  if (impl_->is_closed) return;
  if (bytes > impl_->options.file_bytes ||
      impl_->waiting_bytes + bytes > impl_->options.most_waiting_bytes) {
    ++impl_->counts[request->version->model()][Impl::kDropped];
    return;
  }
  impl_->waiting.push_back({std::move(request), bytes});
  impl_->waiting_bytes += bytes;
  impl_->changed.notify_one();
}

void RequestRecorder::close() { impl_->close(); }

void RequestRecorder::note_version(const ModelVersion& version, const Path& dir) {
  if (impl_->options.warm_up_requests == 0) return;
  // A version that is a file has no room for another.
  const auto folder = file_system_for(dir).status(dir);
  const Path path = warm_up_file(dir);
  if (!folder || !folder->is_directory || file_exists(path)) return;
  const std::lock_guard lock(impl_->mutex);
  impl_->drafts[{version.model(), version.number()}] = {.path = path};
}

std::vector<Gauge> RequestRecorder::gauges() const {
  Gauge requests{.name = "muster_recorded_requests_total",
                 .help = "Requests that were to be recorded, by what came of it.",
                 .type = "counter"};
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [model, counts] : impl_->counts) {
    for (std::size_t result = 0; result < counts.size(); ++result) {
      requests.values.emplace_back(
          fmt::format("model=\"{}\",result=\"{}\"", label_text(model), Impl::kNames[result]),
          static_cast<double>(counts[result]));
    }
  }
  return {std::move(requests)};
}

}  // namespace muster::serving
