#include "muster/serving/core/service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <set>
#include <utility>

#include "muster/base/compute_deadline.h"
#include "muster/base/error.h"
#include "muster/base/thread_pool.h"
#include "muster/serving/listener/event_loop.h"

namespace muster::serving {
namespace {

using Clock = std::chrono::steady_clock;

// Resident memory of this process in bytes, from /proc; 0 where it cannot be read.
double resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long total = 0;
  long resident = 0;
  const int read = std::fscanf(file, "%ld %ld", &total, &resident);
  std::fclose(file);
  return read == 2 ? static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE))
                   : 0;
}

}  // namespace

std::string_view server_version() { return MUSTER_VERSION; }

Service::Service(ModelStore& store, Access access) : store_(store), access_(std::move(access)) {
  for (ModelConfig& config : store_.models()) known_.emplace(config.name, config);
}

Service::~Service() {
  {
    std::unique_lock lock(show_mutex_);
    shown_.wait(lock, [&] { return showing_ == 0; });
  }
  for (const auto& observer : observers_) observer->close();
}

/// A request on its way, and what is counted of it.
struct Service::Request {
  std::atomic<std::int64_t>& in_flight;
  CallRecord record;
  Clock::time_point began = Clock::now();
  ModelVersionPtr version{};
  std::optional<FairShare::Part> part{};
  // Key of the answer among those that are kept; empty where none are.
  std::string cache_key{};
  // Observers that are to see it, and what they see.
  std::vector<std::shared_ptr<RequestObserver>> observers{};
  std::shared_ptr<AnsweredRequest> seen{};

  Request(std::atomic<std::int64_t>& count, const Call& call)
      : in_flight(count),
        record{.model = call.model, .method = call.method, .entrypoint = call.entrypoint} {
    ++in_flight;
  }
  ~Request() { --in_flight; }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
};

Tensors Service::begin(Request& request, Call& call, const Prepare& prepare, const Steps& steps) {
  request.version = call.found ? std::move(call.found) : store_.draw(call.model, call.version);
  const ModelVersion& version = *request.version;
  request.record.version = version.number();
  if (grpc_calls_ && call.entrypoint == "GRPC") request.part.emplace(*grpc_calls_, call.model);
  // Reading a request costs too.
  if (call.deadline.expired()) throw DeadlineExceeded("the request came too late to be answered");
  if (prepare) prepare(call);
  const graph::SignatureDef* const signature = version.find_signature(call.signature);
  if (signature == nullptr) {
    if (steps.no_signature) steps.no_signature(version);
    throw NotFound("Serving signature key \"{}\" not found.", call.signature);
  }
  request.record.signature = call.signature;
  Tensors inputs = steps.inputs(version, *signature);
  request.record.rows = rows_of(inputs);
  return inputs;
}

void Service::note_inputs(Request& request, const Call& call, const Tensors& inputs) const {
  for (const auto& observer : observers_) {
    if (!observer->wants(*request.version, call.signature)) continue;
    request.observers.push_back(observer);
    if (request.seen) continue;
    request.seen = std::make_shared<AnsweredRequest>(
        AnsweredRequest{.version = request.version, .signature = call.signature, .inputs = inputs});
  }
}

// The loop does it when the thread has answered. No version is left behind by it, which a thread of
// the loop would destroy after the store.
void Service::show(Request& request) {
  if (request.observers.empty()) return;
  {
    const std::lock_guard lock(show_mutex_);
    ++showing_;
  }
  using Shown = std::pair<std::vector<std::shared_ptr<RequestObserver>>,
                          std::shared_ptr<const AnsweredRequest>>;
  const auto shown = std::make_shared<Shown>(std::move(request.observers), std::move(request.seen));
  store_.loop()->defer([this, shown] {
    for (const auto& observer : shown->first) observer->see(shown->second);
    *shown = {};
    const std::lock_guard lock(show_mutex_);
    --showing_;
    shown_.notify_all();
  });
}

ResponseCache::Answer Service::find_cached(Request& request, const Call& call,
                                           const Tensors& inputs) {
  CachedAnswers* const cached = request.version->cached_answers();
  if (cached == nullptr) return nullptr;
  request.cache_key = cached->key_of(call.signature, inputs);
  auto found = cached->find(request.cache_key);
  if (found) request.cache_key.clear();
  return found;
}

void Service::finish(Request& request, const Steps& steps, BatchAnswer answer) {
  if (!request.cache_key.empty()) {
    request.version->cached_answers()->keep(request.cache_key, answer.outputs);
  }
  request.record.batch_rows = answer.batch_rows;
  request.record.queued = answer.queued;
  request.record.computed = answer.computed;
  if (request.seen) request.seen->outputs = answer.outputs;
  steps.answer(*request.version, std::move(answer));
}

void Service::count(Request& request, const std::exception_ptr& failure) {
  if (failure) request.record.code = muster::describe(failure).code;
  request.record.latency = Clock::now() - request.began;
  statistics_.record(request.record);
}

/// A call that no thread waits for.
struct Service::Pending {
  Service& service;
  Call call;
  Steps steps;
  Done done;
  Request request{service.in_flight_, call};

  // Nothing of it is left when `done` is called: the callback may end the server.
  static void end(std::unique_ptr<Pending> pending, const std::exception_ptr& failure) {
    pending->service.count(pending->request, failure);
    if (!failure) pending->service.show(pending->request);
    const Done done = std::move(pending->done);
    pending.reset();
    done(failure);
  }

  static void on_computed(std::unique_ptr<Pending> pending, BatchAnswer answer,
                          std::exception_ptr failure) {
    try {
      if (!failure) pending->service.finish(pending->request, pending->steps, std::move(answer));
    } catch (...) {
      failure = std::current_exception();
    }
    end(std::move(pending), failure);
  }
};

void Service::start(Call call, const Prepare& prepare, Steps steps, Done done) {
  std::unique_ptr<Pending> pending(
      new Pending{*this, std::move(call), std::move(steps), std::move(done)});
  Pending* const begun = pending.get();
  try {
    Tensors inputs = begin(begun->request, begun->call, prepare, begun->steps);
    note_inputs(begun->request, begun->call, inputs);
    if (const auto held = find_cached(begun->request, begun->call, inputs)) {
      Pending::on_computed(std::move(pending), {.outputs = *held}, nullptr);
      return;
    }
    // A plain pointer: what is called once needs no copies, as a std::function wants them.
    begun->request.version->start(begun->call.signature, std::move(inputs), begun->call.deadline,
                                  begun->call.priority,
                                  [begun](BatchAnswer answer, std::exception_ptr failure) {
                                    Pending::on_computed(std::unique_ptr<Pending>(begun),
                                                         std::move(answer), std::move(failure));
                                  });
    static_cast<void>(pending.release());
  } catch (...) {
    Pending::end(std::move(pending), std::current_exception());
  }
}

void Service::run(Call& call, const Prepare& prepare, const Steps& steps) {
  Request request(in_flight_, call);
  try {
    const Tensors inputs = begin(request, call, prepare, steps);
    note_inputs(request, call, inputs);
    const auto held = find_cached(request, call, inputs);
    finish(request, steps,
           held ? BatchAnswer{.outputs = *held}
                : request.version->run(call.signature, inputs, call.deadline, call.priority));
  } catch (...) {
    count(request, std::current_exception());
    throw;
  }
  count(request, nullptr);
  show(request);
}

Explanations Service::explain(Call& call, const MakeExplainInputs& inputs) {
  /// Counts those that are computed.
  struct Turn {
    explicit Turn(std::atomic<std::int64_t>& of) : count(of) { ++count; }
    ~Turn() { --count; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    std::atomic<std::int64_t>& count;
  };
  Request request(in_flight_, call);
  Explanations made;
  try {
    request.version = store_.draw(call.model, call.version);
    const ModelVersion& version = *request.version;
    request.record.version = version.number();
    const graph::SignatureDef* const signature = version.find_signature(call.signature);
    if (signature == nullptr) {
      throw NotFound("Serving signature key \"{}\" not found.", call.signature);
    }
    request.record.signature = call.signature;
    const ExplainInputs given = inputs(*signature);
    request.record.rows = rows_of(given.inputs);
    const Turn turn(explaining_);
    const auto most = static_cast<std::int64_t>(ThreadPool::available_processors());
    if (explaining_.load() > most) {
      throw ResourceExhausted(
          "{} requests are being explained, and more are not at one time; try "
          "again later",
          most);
    }
    const ComputeDeadline scope(call.deadline);
    made = version.explain(call.signature, given.inputs, given.options, given.baseline);
    call.found = request.version;
  } catch (...) {
    count(request, std::current_exception());
    throw;
  }
  count(request, nullptr);
  return made;
}

void Service::configure(std::vector<ModelConfig> models) {
  const std::lock_guard lock(mutex_);
  std::map<std::string, ModelConfig, std::less<>> known;
  for (const ModelConfig& model : models) known.emplace(model.name, model);
  store_.configure(std::move(models));
  known_ = std::move(known);
}

std::vector<std::string> Service::known_models() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  names.reserve(known_.size());
  for (const auto& row : known_) names.push_back(row.first);
  return names;
}

void Service::unload(const std::string& model) {
  const std::lock_guard lock(mutex_);
  if (!known_.contains(model))
    throw NotFound("Request for unknown model: '{}' is not found", model);
  std::vector<ModelConfig> left = store_.models();
  std::erase_if(left, [&](const ModelConfig& config) { return config.name == model; });
  store_.configure(std::move(left));
}

void Service::load(const std::string& model, const Deadline& deadline) {
  {
    const std::lock_guard lock(mutex_);
    const auto config = known_.find(model);
    if (config == known_.end()) {
      throw NotFound("failed to load '{}': no model of that name is configured", model);
    }
    std::vector<ModelConfig> all = store_.models();
    const bool is_there =
        std::ranges::any_of(all, [&](const ModelConfig& one) { return one.name == model; });
    if (!is_there) all.push_back(config->second);
    store_.configure(std::move(all));
  }
  if (!store_.wait_until_settled(deadline)) {
    throw DeadlineExceeded("model {} is still being loaded", model);
  }
  std::string reason = "it has no version";
  for (const VersionStatus& status : store_.status(model)) {
    if (status.state == VersionState::kAvailable) return;
    if (!status.message.empty()) reason = status.message;
  }
  throw Unavailable("failed to load '{}': {}", model, reason);
}

void Service::forget_unloaded() {
  std::set<std::pair<std::string, std::int64_t>> served;
  for (const ModelVersionPtr& version : store_.available()) {
    served.emplace(version->model(), version->number());
  }
  statistics_.retain([&](const std::string& model, std::int64_t version) {
    return served.contains({model, version});
  });
}

std::string Service::tensorflow_metrics_page() { return statistics_.tensorflow_page(); }

std::string Service::metrics_page() {
  forget_unloaded();
  Gauge info{
      "muster_build_info", "What answers.", {{fmt::format("version=\"{}\"", server_version()), 1}}};
  Gauge start{"muster_start_time_seconds",
              "When the server started, in seconds since 1970.",
              {{"", std::chrono::duration<double>(started_.time_since_epoch()).count()}}};
  Gauge memory{
      "muster_resident_memory_bytes", "Memory that the process holds.", {{"", resident_bytes()}}};
  Gauge flight{"muster_requests_in_flight",
               "Requests that are being answered.",
               {{"", static_cast<double>(in_flight())}}};
  Gauge ready_now{"muster_ready", "Whether every model answers.", {{"", ready() ? 1.0 : 0.0}}};
  Gauge versions{"muster_model_version_available", "Versions that answer.", {}};
  Gauge waiting{"muster_requests_waiting", "Requests in the queues of a version.", {}};
  Gauge hits{.name = "muster_response_cache_hits_total",
             .help = "Requests that were answered without being computed.",
             .type = "counter"};
  Gauge misses{.name = "muster_response_cache_misses_total",
               .help = "Requests that no kept answer was there for.",
               .type = "counter"};
  for (const ModelVersionPtr& version : store_.available()) {
    const std::string labels =
        fmt::format("model=\"{}\",version=\"{}\"", label_text(version->model()), version->number());
    versions.values.emplace_back(labels, 1);
    waiting.values.emplace_back(labels, static_cast<double>(version->waiting()));
    if (const CachedAnswers* const cached = version->cached_answers()) {
      hits.values.emplace_back(labels, static_cast<double>(cached->hits()));
      misses.values.emplace_back(labels, static_cast<double>(cached->misses()));
    }
  }
  Gauge shares{"muster_model_version_share",
               "Part of the requests that name no version, where versions share them by weight.",
               {}};
  for (const auto& [model, rows] : store_.shares()) {
    for (const auto& [number, share] : rows) {
      shares.values.emplace_back(
          fmt::format("model=\"{}\",version=\"{}\"", label_text(model), number), share);
    }
  }
  std::vector<Gauge> gauges{info, start, memory, flight, ready_now, versions, waiting, shares};
  if (const auto& cache = store_.cache()) {
    const ResponseCache::Counts counts = cache->counts();
    gauges.insert(gauges.end(),
                  {hits, misses,
                   Gauge{.name = "muster_response_cache_entries",
                         .help = "Answers that are kept.",
                         .values = {{"", static_cast<double>(counts.entries)}}},
                   Gauge{.name = "muster_response_cache_bytes",
                         .help = "Memory of the answers that are kept, and of their requests.",
                         .values = {{"", static_cast<double>(counts.bytes)}}},
                   Gauge{.name = "muster_response_cache_evictions_total",
                         .help = "Answers that went to make room for others.",
                         .values = {{"", static_cast<double>(counts.evictions)}},
                         .type = "counter"}});
  }
  for (const auto& observer : observers_) {
    std::ranges::move(observer->gauges(), std::back_inserter(gauges));
  }
  return statistics_.page(gauges);
}

}  // namespace muster::serving
