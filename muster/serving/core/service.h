#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/core/fair_share.h"
#include "muster/serving/core/model_store.h"
#include "muster/serving/core/request_observer.h"
#include "muster/serving/core/statistics.h"
#include "muster/serving/listener/access.h"

namespace muster::serving {

/// Version of muster, "1.0.0-rc1".
std::string_view server_version();

/// A prediction request, independent of the protocol.
struct Call {
  std::string model{};
  VersionChoice version{};
  /// The version, where it is found already.
  ModelVersionPtr found{};
  std::string signature{graph::kDefaultSignature};
  /// As CallRecord has it.
  std::string_view method = "Predict";
  std::string_view entrypoint = "REST";
  Deadline deadline = Deadline::never();
  /// The level of its priority, 1 the highest; 0 the model's default.
  std::uint64_t priority = 0;
};

/// The core below every edge: models, access control and statistics. All functions may be
/// called from any thread.
class Service {
 public:
  Service(ModelStore& store, Access access);
  /// Waits for what observers still do. None of the loop's threads may call it.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  ModelStore& store() { return store_; }
  Statistics& statistics() { return statistics_; }
  const Access& access() const { return access_; }

  /// Threads that servers share with the models.
  const std::shared_ptr<EventLoop>& loop() const { return store_.loop(); }

  /// Steps of an edge for a request, in order.
  struct Steps {
    std::function<void(const ModelVersion& version)> no_signature{};
    std::function<Tensors(const ModelVersion& version, const graph::SignatureDef& signature)>
        inputs{};
    std::function<void(const ModelVersion& version, BatchAnswer answer)> answer{};
  };
  /// Changes a call that is read from its body, the name of its signature say: first of all, but
  /// for finding the version.
  using Prepare = std::function<void(Call& call)>;
  /// Nothing when the request was answered; else what a step threw, or NotFound, InvalidArgument
  /// (label), what `no_signature` throws, or a failure of BatchQueue::start.
  using Done = std::function<void(std::exception_ptr failure)>;

  /// Begins one request: finds the version and the signature, has the inputs made, and leaves them
  /// to the queue of the signature. When they are computed, in whichever thread that is, the answer
  /// is made and `done` called, which must not throw; at once, in this thread, when something fails
  /// before. Everything is counted, failures too.
  void start(Call call, const Prepare& prepare, Steps steps, Done done);
  /// The same for callers that wait: throws the failure.
  void run(Call& call, const Prepare& prepare, const Steps& steps);

  /// Inputs and choices of an explanation.
  struct ExplainInputs {
    Tensors inputs{};
    executor::ExplainOptions options{};
    std::optional<Tensors> baseline{};
  };
  using MakeExplainInputs = std::function<ExplainInputs(const graph::SignatureDef& signature)>;
  /// Explains a request in the calling thread, until the call's deadline; it is counted as others
  /// are. Throws NotFound as start() does, what the version throws, and ResourceExhausted while as
  /// many as there are processors are explained, so that predictions go on.
  Explanations explain(Call& call, const MakeExplainInputs& inputs);

  /// Shows it requests that were answered. To be said before the first call.
  void add_observer(std::shared_ptr<RequestObserver> observer) {
    observers_.push_back(std::move(observer));
  }

  /// How many calls of gRPC there may be at one time: models share them. To be said before the
  /// first call; any number when it is not.
  void limit_grpc_calls(std::size_t calls) { grpc_calls_.emplace(calls); }

  /// Requests that are being answered.
  std::int64_t in_flight() const { return in_flight_.load(); }

  /// Whether every model answers and the server is not about to end.
  bool ready() const { return !draining_.load() && store_.ready(); }
  /// From now on not ready; requests are still answered.
  void begin_drain() { draining_ = true; }
  bool draining() const { return draining_.load(); }

  /// Unloads a model, or loads it (again): the repository calls of the Open Inference Protocol.
  /// Throws NotFound for a model that was never configured. load() waits until it is loaded, and
  /// throws what went wrong.
  void unload(const std::string& model);
  void load(const std::string& model, const Deadline& deadline);
  /// Models that were configured, loaded or not.
  std::vector<std::string> known_models() const;
  /// A whole new list, as a configuration file or HandleReloadConfigRequest has it.
  void configure(std::vector<ModelConfig> models);

  /// Our page for Prometheus.
  std::string metrics_page();
  std::string tensorflow_metrics_page();

 private:
  struct Request;
  struct Pending;

  Tensors begin(Request& request, Call& call, const Prepare& prepare, const Steps& steps);
  void note_inputs(Request& request, const Call& call, const Tensors& inputs) const;
  void show(Request& request);
  static ResponseCache::Answer find_cached(Request& request, const Call& call,
                                           const Tensors& inputs);
  void finish(Request& request, const Steps& steps, BatchAnswer answer);
  void count(Request& request, const std::exception_ptr& failure);
  void forget_unloaded();

  ModelStore& store_;
  Access access_;
  Statistics statistics_;
  std::optional<FairShare> grpc_calls_{};
  std::vector<std::shared_ptr<RequestObserver>> observers_{};
  // Requests that are to be shown to observers.
  std::mutex show_mutex_{};
  std::condition_variable shown_{};
  std::int64_t showing_ = 0;
  std::atomic<std::int64_t> in_flight_{0};
  std::atomic<std::int64_t> explaining_{0};
  std::atomic<bool> draining_{false};
  mutable std::mutex mutex_;
  std::map<std::string, ModelConfig, std::less<>> known_;
  std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
};

}  // namespace muster::serving
