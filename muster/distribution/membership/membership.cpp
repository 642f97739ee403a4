#include "muster/distribution/membership/membership_internal.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/base/thread_pool.h"
#include "muster/base/wait.h"
#include "muster/data/checkpoint/step_log.h"
#include "muster/distribution/membership/links_internal.h"
#include "muster/distribution/membership/stop_grace_internal.h"
#include "muster/distribution/membership/task_address_internal.h"
#include "muster/platform/net/tls.h"

namespace muster::internal {
namespace {

using namespace std::chrono_literals;

std::string variable_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

using Clock = std::chrono::steady_clock;

void throw_if_stopped(const std::string& what) {
  if (const int signal = StopSignals::received()) {
    throw Interrupted(signal, "stopped by signal {} while waiting for {}", signal, what);
  }
}

// The number that a variable is set to, at least `least`; nothing where it is not set.
std::optional<std::int64_t> number_of(const char* variable, std::int64_t least,
                                      std::string_view what) {
  const std::string told = variable_or(variable, "");
  if (told.empty()) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = told.data() + told.size();
  const auto [stopped, error] = std::from_chars(told.data(), end, number);
  if (error != std::errc() || stopped != end || number < least) {
    throw InvalidArgument("{} must be a number of {}: {}", variable, what, told);
  }
  return number;
}

// Those that the tasks of this host are on, each bound to one of them or not.
std::size_t processors_of_host() {
  const auto told = number_of("MUSTER_HOST_PROCESSORS", 1, "processors");
  return told ? static_cast<std::size_t>(*told) : ThreadPool::available_processors();
}

// The chief among them; 0 where all are waited for.
std::size_t least_trainers(const ClusterConfig& cluster) {
  std::int64_t least = cluster.min_workers;
  if (least == 0) least = number_of("MUSTER_MIN_WORKERS", 0, "workers").value_or(0);
  const std::int64_t workers = cluster.task.num_worker_replicas - 1;
  if (least > workers) {
    throw InvalidArgument("at least {} workers are asked for, and the cluster has {}", least,
                          workers);
  }
  return least == 0 ? 0 : static_cast<std::size_t>(least + 1);
}

// Null where tasks do not encrypt.
std::shared_ptr<const net::TlsContext> tls_of(const TlsConfig& config, const std::string& secret) {
  const auto file = [](const Path& given, const char* variable) {
    return given.empty() ? Path(variable_or(variable, "")) : given;
  };
  const net::TlsFiles files{.certificate = file(config.certificate, "MUSTER_TLS_CERT"),
                            .key = file(config.key, "MUSTER_TLS_KEY"),
                            .authority = file(config.authority, "MUSTER_TLS_CA")};
  const int named = !files.certificate.empty() + !files.key.empty() + !files.authority.empty();
  const std::string asked = variable_or("MUSTER_TLS", "");
  if (!asked.empty() && asked != "0" && asked != "1") {
    throw InvalidArgument("MUSTER_TLS must be 0 or 1: {}", asked);
  }
  if (!config.enabled && asked != "1") {
    if (named == 0) return nullptr;
    throw InvalidArgument(
        "files of TLS are named, but TLS is off; set MUSTER_TLS=1 (--tls), or name none");
  }
  if (named == 0) return net::TlsContext::from_secret(secret);
  if (named < 3) {
    throw InvalidArgument(
        "TLS by files needs a certificate, its key and the authority; set MUSTER_TLS_CERT, "
        "MUSTER_TLS_KEY and MUSTER_TLS_CA, or none of them");
  }
  return net::TlsContext::from_files(files);
}

// As wait(), but peers that do not come in time may be waited for again, and a signal ends it: the
// thread that beats wakes it twice a second.
template <typename Ready>
void wait_for_peers(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                    const Deadline& deadline, const WaitReason& reason, Ready ready) {
  const auto start = Clock::now();
  const bool in_time =
      wait_until(changed, lock, deadline, reason, [&] { return ready() || stops(start); });
  if (ready()) return;
  if (stops(start)) throw_if_stopped(reason());
  if (!in_time) throw Unavailable("gave up waiting for {}", reason());
}

}  // namespace

net::Identity identity_of(const RunConfig& config, const PeerOptions& options) {
  const std::string run = "run of " + chief_of(config.cluster.task).address;
  net::Identity self{
      .task = config.cluster.task.task.name(),
      .run_id = options.run_id.empty() ? variable_or("MUSTER_RUN_ID", run) : options.run_id,
      .secret = options.secret.empty() ? variable_or("MUSTER_SECRET", "") : options.secret};
  self.tls = tls_of(config.cluster.tls, self.secret);
  return self;
}

Membership::Membership(const RunConfig& config, const PeerOptions& options)
    : config_(config),
      chief_(chief_of(config.cluster.task)),
      self_(identity_of(config, options)),
      is_open_(!self_.secret.empty() || options.listen_without_secret ||
               variable_or("MUSTER_LISTEN_WITHOUT_SECRET", "") == "1") {}

Membership::~Membership() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (control_ != nullptr) control_->close();
    changed_.notify_all();
  }
  if (control_thread_.joinable()) control_thread_.join();
  if (beat_thread_.joinable()) beat_thread_.join();
  group_.reset();
  // Before the listener, whose threads serve it: they end when its connections are closed.
  if (coordinator_ != nullptr) coordinator_->stop();
  listener_.reset();
}

void Membership::accept(std::unique_ptr<net::Connection> connection) {
  if (connection->purpose() == kControlPurpose) {
    if (coordinator_ != nullptr) coordinator_->serve(std::move(connection));
    return;
  }
  const std::string purpose = connection->purpose();
  if (purpose == kArgumentsPurpose) {
    send(*connection, ChiefArguments{config_.cluster.arguments}, Deadline::after(kTellTimeout));
    connection->receive(
        Deadline::after(config_.cluster.peer_timeout));  // Until it has it, and hangs up.
    return;
  }
  if (!purpose.starts_with(kDataPurpose)) {
    log::warning("{} wants '{}', which this task does not do", connection->peer(), purpose);
    return;
  }
  const std::int64_t generation = std::atoll(purpose.substr(kDataPurpose.size()).c_str());
  const std::lock_guard lock(mutex_);
  accepted_[{generation, connection->peer_task()}] = std::move(connection);
  changed_.notify_all();
}

void Membership::take(GenerationPlan plan) {
  plan_ = std::move(plan);
  source_.reset();
  connecting_.request_stop();
  if (group_ == nullptr) return;
  group_->interrupt(
      fmt::format("generation {} begins with {} tasks", plan_->number, plan_->members.size()));
  group_->leave_behind(*plan_);
}

void Membership::take(Source source) {
  if (!plan_ || source.generation != plan_->number) return;
  const std::size_t tasks = plan_->members.size();
  const auto is_nobody = [&](std::size_t rank) { return rank >= tasks; };
  if (is_nobody(source.rank) || std::ranges::any_of(source.to, is_nobody)) {
    throw DataLoss("the coordinator names a task that is not among {}", tasks);
  }
  source_ = std::move(source);
}

void Membership::handle(net::Frame frame) {
  const std::lock_guard lock(mutex_);
  heard_ = std::chrono::steady_clock::now();
  if (is_message<Heartbeat>(frame)) return;
  const auto handler = Handle{[this](LogRun message) { log_run_ = std::move(message.run); },
                              [this](Admitted message) { chief_terms_ = std::move(message.terms); },
                              [this](Refused message) { refused_ = std::move(message.why); },
                              [this](GenerationPlan plan) { take(std::move(plan)); },
                              [this](Source source) { take(std::move(source)); },
                              [this](RunFailed message) {
                                failed_ = std::move(message.why);
                                connecting_.request_stop();
                                if (group_ != nullptr) group_->interrupt(failed_);
                              },
                              [this](RunEnding) {
                                chief_ends_ = true;
                                connecting_.request_stop();
                              },
                              [this](RunEnded message) {
                                ended_ = true;
                                end_signal_ = static_cast<int>(message.signal);
                                connecting_.request_stop();
                                if (group_ != nullptr) group_->end();
                              }};
  const bool is_known =
      dispatch<LogRun, Admitted, Refused, GenerationPlan, Source, RunFailed, RunEnding, RunEnded>(
          frame, handler);
  if (!is_known) throw DataLoss("the coordinator sent {}", describe_message(frame.type));
  changed_.notify_all();
}

void Membership::listen_to_control(const std::shared_ptr<net::Connection>& control) {
  std::string why;
  try {
    while (auto frame = control->receive(Deadline::never())) handle(std::move(*frame));
    why = fmt::format("{} closed the connection", control->peer());
  } catch (const Error& error) {
    why = error.what();
  }
  const std::lock_guard lock(mutex_);
  control_lost_ = why;
  if (group_ != nullptr) group_->interrupt(why);
  connecting_.request_stop();
  changed_.notify_all();
}

// Says that this task lives, and notices when the coordinator does so no longer.
void Membership::beat() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (control_ != nullptr && control_lost_.empty()) {
      const auto control = control_;
      const auto silence = std::chrono::steady_clock::now() - heard_;
      lock.unlock();
      if (silence > config_.cluster.peer_timeout) {
        log::warning("{} has not been heard of for {:.1f} s", control->peer(),
                     std::chrono::duration<double>(silence).count());
        control->close();
      } else {
        try {
          send(*control, Heartbeat{}, Deadline::after(kTellTimeout));
        } catch (const Error&) {
          control->close();  // The thread that receives says why.
        }
      }
      lock.lock();
    }
    if (stops(connecting_since_)) connecting_.request_stop();
    // Waits look whether a signal has come.
    changed_.notify_all();
    if (group_ != nullptr) group_->wake();
    changed_.wait_for(lock, kHeartbeatInterval, [this] { return stopping_; });
  }
}

template <typename Message>
void Membership::tell_coordinator(const Message& message) {
  std::shared_ptr<net::Connection> control;
  {
    const std::lock_guard lock(mutex_);
    control = control_;
  }
  try {
    send(*control, message, Deadline::after(kTellTimeout));
  } catch (const Error&) {
    control->close();  // The thread that receives says why.
  }
}

void Membership::connect_control(const Deadline& deadline) {
  if (control_thread_.joinable()) control_thread_.join();
  {
    // Connections of generations that the coordinator no longer knows.
    const std::lock_guard lock(mutex_);
    accepted_.clear();
  }
  std::stop_token stop;
  {
    const std::lock_guard lock(mutex_);
    connecting_ = std::stop_source();
    connecting_since_ = Clock::now();
    stop = connecting_.get_token();
  }
  const std::string address = config_.is_chief() ? at_home(listener_->address()) : chief_.address;
  std::shared_ptr<net::Connection> control;
  try {
    control = net::Connection::connect(
        address, self_, kControlPurpose, deadline,
        {.limits_by_type = message_limits, .peer_task = chief_.task.name(), .stop = stop});
  } catch (const Error&) {
    throw_if_stopped(fmt::format("{} at {}", chief_.task.name(), chief_.address));
    throw;
  }
  const std::vector<int> processors = ThreadPool::allowed_processors();
  send(*control,
       Join{.terms = terms_,
            .address = reached_at(config_.cluster.task, listener_->address()),
            .is_chief = config_.is_chief(),
            .is_server = config_.cluster.task.task.type == job::kPs,
            .processors = {processors.begin(), processors.end()}},
       deadline);
  std::unique_lock lock(mutex_);
  control_ = control;
  control_lost_.clear();
  chief_ends_ = false;
  chief_terms_.reset();
  plan_.reset();
  source_.reset();
  // A chief that came back counts its generations from the beginning.
  last_generation_ = 0;
  heard_ = std::chrono::steady_clock::now();
  control_thread_ = std::jthread([this, control] { listen_to_control(control); });
  wait_for_peers(
      changed_, lock, deadline,
      [&] { return fmt::format("{}: an answer to the request to join", control->peer()); },
      [this] { return chief_terms_ || !refused_.empty() || !control_lost_.empty(); });
  if (!refused_.empty()) {
    throw FailedPrecondition("{} cannot take part in the run of {}: {}", self_.task,
                             control->peer(), refused_);
  }
}

// A task that comes when the run is over finds no chief at its address: it need not look for long.
void Membership::meet_chief() {
  const auto patience =
      config_.is_chief()
          ? std::chrono::milliseconds(config_.cluster.session_creation_timeout_secs)
          : std::min<std::chrono::milliseconds>(config_.cluster.join_timeout,
                                                config_.cluster.session_creation_timeout_secs);
  const Deadline deadline = Deadline::after(patience);
  try {
    for (;;) {
      connect_control(deadline);
      const std::lock_guard lock(mutex_);
      if (chief_terms_) return;
    }
  } catch (Unavailable& error) {
    error.add_context(fmt::format(
        "{} has not met {} within {:.0f} s (RunConfig::cluster.join_timeout, --join-timeout-secs); "
        "either "
        "it has not been "
        "started, or the run is over",
        self_.task, chief_.task.name(), std::chrono::duration<double>(patience).count()));
    throw;
  }
}

RunContract Membership::join(const RunContract& own) {
  terms_ = own;
  if (config_.is_chief()) {
    const bool has_logs = config_.cluster.ps_log && config_.cluster.task.num_ps_replicas > 0;
    coordinator_ = std::make_unique<Coordinator>(CoordinatorOptions{
        .chief = chief_.task.name(),
        .chief_address = chief_.address,
        .terms = own,
        .trainers = static_cast<std::size_t>(config_.cluster.task.num_worker_replicas),
        .least_trainers = least_trainers(config_.cluster),
        .servers = static_cast<std::size_t>(config_.cluster.task.num_ps_replicas),
        .goes_back = config_.sharding != Sharding::kOff,
        .log_run = has_logs ? step_log_run(config_.model_dir) : "",
        .join_timeout = config_.cluster.join_timeout,
        .peer_timeout = config_.cluster.peer_timeout});
  }
  listener_ = std::make_unique<net::Listener>(
      listening_address(config_.cluster.task, chief_, is_open_), self_,
      [this](std::unique_ptr<net::Connection> connection) { accept(std::move(connection)); },
      net::ConnectionOptions{.limits_by_type = message_limits,
                             .admits = [this](std::string_view task) {
                               return has_task(config_.cluster.task, task);
                             }});
  log::info("Started server with target: grpc://{}",
            reached_at(config_.cluster.task, listener_->address()));
  beat_thread_ = std::jthread([this] { beat(); });
  meet_chief();
  terms_ = *chief_terms_;
  return terms_;
}

std::size_t Membership::rank_in(const GenerationPlan& plan) const {
  for (std::size_t r = 0; r < plan.members.size(); ++r) {
    if (plan.members[r].task == self_.task) return r;
  }
  throw Internal("generation {} is without {}, which was told of it", plan.number, self_.task);
}

// Where each task has a part of a checkpoint, the last one is not whole without a task that is
// slow.
std::chrono::milliseconds Membership::stop_grace() const {
  if (config_.sharding == Sharding::kOff) return kStopGrace;
  return std::max<std::chrono::milliseconds>(kStopGrace, config_.cluster.peer_timeout);
}

GroupOptions Membership::group_options(const GenerationPlan& plan, std::size_t rank) const {
  if (self_.tls != nullptr) return {.stop_grace = stop_grace()};
  const auto host_of = [](const GenerationMember& member) {
    return member.address.substr(0, member.address.rfind(':'));
  };
  const std::string own = host_of(plan.members[rank]);
  const auto on_host = std::ranges::count(plan.members, own, host_of);
  return {// Whether those who wait have a processor to look for messages with.
          .looks = static_cast<std::size_t>(on_host) <= processors_of_host(),
          // Servers and their workers are sent to by several at once.
          .waiters_receive = static_cast<std::size_t>(plan.trainers) == plan.members.size(),
          .stop_grace = stop_grace()};
}

void Membership::be_alone() {
  GenerationPlan alone{.number = 0, .members = {{.task = self_.task}}};
  const std::lock_guard lock(mutex_);
  group_ = std::make_unique<Group>(std::move(alone), 0, Connections(1));
  group_->end();
}

// The plan of a generation that this process has not been in.
std::optional<GenerationPlan> Membership::next_plan(const Deadline& deadline) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      // A chief that lives may be long over a checkpoint; heartbeats tell when it does no longer.
      wait_for_peers(
          changed_, lock, Deadline::never(),
          [this] {
            if (chief_ends_) return end_of_run();
            return fmt::format("{} at {}: who takes part", chief_.task.name(), chief_.address);
          },
          [this] {
            const bool has_plan = plan_ && plan_->number > last_generation_ && !chief_ends_;
            return ended_ || !failed_.empty() || !control_lost_.empty() || has_plan;
          });
      if (ended_) return std::nullopt;
      if (!failed_.empty()) throw Unavailable("{}", failed_);
      if (control_lost_.empty()) return *plan_;
      log::warning("{} is lost and waited for: {}", chief_.task.name(), control_lost_);
    }
    connect_control(deadline);
  }
}

std::unique_ptr<net::Connection> Membership::accepted_from(const std::string& task,
                                                           std::int64_t generation,
                                                           const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto start = Clock::now();
  wait_until(
      changed_, lock, deadline, [&] { return fmt::format("{}: its connection", task); },
      [&] {
        return accepted_.contains({generation, task}) || is_void(generation) || stops(start);
      });
  auto node = accepted_.extract({generation, task});
  if (node.empty()) {
    if (stops(start)) throw_if_stopped(task);
    throw PeersChanged("{} has not connected for generation {}", task, generation);
  }
  return std::move(node.mapped());
}

Membership::Connections Membership::connect_group(const GenerationPlan& plan, std::size_t rank,
                                                  const Deadline& deadline) {
  Connections connections(plan.members.size());
  const auto start = Clock::now();
  const std::string purpose = fmt::format("{}{}", kDataPurpose, plan.number);
  std::stop_token is_void_now;
  {
    const std::lock_guard lock(mutex_);
    connecting_ = std::stop_source();
    connecting_since_ = Clock::now();
    if (is_void(plan.number)) connecting_.request_stop();
    is_void_now = connecting_.get_token();
  }
  const auto linked = linked_ranks(plan, rank);
  for (const std::size_t r : linked) {
    if (r > rank) continue;
    const GenerationMember& member = plan.members[r];
    try {
      connections[r] = net::Connection::connect(
          member.address, self_, purpose, deadline,
          {.limits_by_type = message_limits, .peer_task = member.task, .stop = is_void_now});
    } catch (const Error& error) {
      if (stops(start)) throw_if_stopped(member.task);
      throw PeersChanged("{}", error.what());
    }
  }
  for (const std::size_t r : linked) {
    if (r > rank) connections[r] = accepted_from(plan.members[r].task, plan.number, deadline);
  }
  return connections;
}

// Nothing when another generation begins instead.
std::optional<Source> Membership::wait_for_source(std::int64_t generation) {
  std::unique_lock lock(mutex_);
  wait_for_peers(
      changed_, lock, Deadline::never(),
      [&] {
        return fmt::format("all tasks of generation {} to get ready; the log of {} says who is not",
                           generation, chief_.task.name());
      },
      [&] { return is_void(generation) || (source_ && source_->generation == generation); });
  if (is_void(generation)) return std::nullopt;
  return source_;
}

std::optional<Source> Membership::begin_generation(const Progress& progress,
                                                   const Deadline& deadline) {
  if (group_ != nullptr) {
    // It may be only this task that noticed.
    tell_coordinator(Broken{group_->plan().number});
  }
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      group_.reset();
    }
    const auto plan = next_plan(deadline);
    if (!plan) {
      be_alone();
      return std::nullopt;
    }
    last_generation_ = plan->number;
    try {
      const std::size_t rank = rank_in(*plan);
      auto connections =
          connect_group(*plan, rank, Deadline::after(2 * config_.cluster.peer_timeout));
      {
        const std::lock_guard lock(mutex_);
        group_ = std::make_unique<Group>(*plan, rank, std::move(connections),
                                         group_options(*plan, rank));
        std::erase_if(accepted_,
                      [&](const auto& entry) { return entry.first.first < plan->number; });
      }
      tell_coordinator(Ready{plan->number, progress});
      if (auto source = wait_for_source(plan->number)) return source;
    } catch (const PeersChanged& error) {
      log::warning("generation {} ends before it began: {}", plan->number, error.what());
      tell_coordinator(Broken{plan->number});
    }
  }
}

bool Membership::check() {
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  if (plan_ && plan_->number != group_->plan().number) {
    throw PeersChanged("generation {} begins with {} tasks", plan_->number, plan_->members.size());
  }
  if (!control_lost_.empty()) throw PeersChanged("{}", control_lost_);
  return true;
}

void Membership::expect_parts(const std::shared_ptr<CheckpointParts>& parts) {
  coordinator_->expect_parts(parts, group_->plan().number);
}

void Membership::tell_written(const PartWritten& part) { tell_coordinator(part); }

void Membership::announce_end() {
  if (coordinator_ != nullptr) coordinator_->announce_end();
}

// With the mutex held: what is waited for.
std::string Membership::end_of_run() const {
  return fmt::format(
      "{}: {}", chief_.task.name(),
      chief_ends_ ? "the end of the run; it saves the last step" : "the end of the run");
}

void Membership::end(std::int64_t step, int signal) { coordinator_->end(step, signal); }

int Membership::leave(bool early) {
  const auto start = Clock::now();
  bool gave_up = false;
  if (!early) {
    // The chief is about to say so, when it has saved; heartbeats tell that it lives.
    std::unique_lock lock(mutex_);
    const auto goes_on = [this] {
      return plan_ && group_ && plan_->number != group_->plan().number && !chief_ends_;
    };
    wait_for_peers(
        changed_, lock, Deadline::never(), [this] { return end_of_run(); },
        [&] {
          return ended_ || goes_on() || !control_lost_.empty() || !failed_.empty() ||
                 stops(start, stop_grace());
        });
    gave_up = !ended_ && stops(start, stop_grace());
    if (!ended_ && !gave_up) {
      throw PeersChanged("{} has not ended the run{}{}", chief_.task.name(),
                         control_lost_.empty() ? "" : ": ", control_lost_);
    }
  }
  tell_coordinator(Leave{});
  if (gave_up) throw_if_stopped(fmt::format("{}: the end of the run", chief_.task.name()));
  const std::lock_guard lock(mutex_);
  return end_signal_;
}

}  // namespace muster::internal
