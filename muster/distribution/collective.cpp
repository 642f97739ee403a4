#include "muster/distribution/collective.h"

#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/distribution/coordinator_internal.h"
#include "muster/distribution/group_internal.h"
#include "muster/distribution/head_codec_internal.h"
#include "muster/distribution/step_codec_internal.h"
#include "muster/net/listener.h"

namespace muster {
namespace internal {
namespace {

using namespace std::chrono_literals;

constexpr auto kBeatEvery = 500ms;
constexpr auto kTellTimeout = 2s;
// Of an image's tensors: larger ones are sent in several messages.
constexpr std::size_t kTensorPiece = std::size_t{16} << 20;
// Of a slice's sum: while one piece is on its way the next is added up.
constexpr std::int64_t kSlicePiece = 256 * 1024;

std::string variable_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

/// The chief of the cluster: its job "chief" or "master", else worker 0.
Peer chief_of(const TaskEnvironment& environment) {
  for (const std::string_view job : {job::kChief, job::kMaster, job::kWorker}) {
    if (const auto address = environment.cluster.address(job, 0)) {
      return {{std::string(job), 0}, *address};
    }
  }
  throw InvalidArgument("the cluster {} has neither chief nor master nor worker 0",
                        environment.cluster.to_string());
}

std::string own_address(const TaskEnvironment& environment) {
  const auto address = environment.cluster.address(environment.task.type, environment.task.index);
  if (!address) {
    throw InvalidArgument("the cluster {} has no address for this task, {}",
                          environment.cluster.to_string(), environment.task.name());
  }
  return *address;
}

// A name of this machine may be one that only others resolve to it: then all its addresses serve.
std::string listening_address(const std::string& address) {
  const auto colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  const bool local = host == "localhost" || host.starts_with("127.") || host == "[::1]";
  return local ? address : address.substr(colon);
}

class Collective final : public Strategy {
 public:
  Collective(const RunConfig& config, CollectiveOptions options);
  ~Collective() override;

  std::string describe() const override;
  RunTerms join(const RunTerms& own) override;
  void synchronize(const RunImage& own, const std::function<void(const RunImage&)>& take) override;
  ReplicaRange replicas() const override { return group_->replicas(); }
  std::optional<StepParts> sum(std::int64_t step, StepParts own, StepNotes& notes) override;
  void finish(std::int64_t step, bool early) override;

 private:
  using Connections = std::vector<std::unique_ptr<net::Connection>>;

  void accept(std::unique_ptr<net::Connection> connection);
  void connect_control(const Deadline& deadline);
  void listen_to_control(const std::shared_ptr<net::Connection>& control);
  void handle(const net::Frame& frame);
  void beat();
  void tell_coordinator(MessageType type, const std::string& head);
  EpochPlan next_plan(const Deadline& deadline);
  std::optional<Source> wait_for_source(std::int64_t epoch, const Deadline& deadline);
  Connections connect_group(const EpochPlan& plan, std::size_t rank, const Deadline& deadline);
  std::unique_ptr<net::Connection> accepted_from(const std::string& task, std::int64_t epoch,
                                                 const Deadline& deadline);
  void send_image(const RunImage& own, std::size_t to);
  void receive_image(std::size_t from, const RunImage& own,
                     const std::function<void(const RunImage&)>& take);
  StepParts add_up(std::vector<ReceivedStep>& received, StepParts& own, const StepNotes& notes,
                   bool sliced) const;
  bool exchange_slices(at::Tensor& flat, std::int64_t step);
  std::size_t rank_in(const EpochPlan& plan) const;
  // With the mutex held: whether there is no point in waiting for others of this epoch.
  bool is_void(std::int64_t epoch) const {
    return ended_ || !control_lost_.empty() || !plan_ || plan_->number != epoch;
  }

  const RunConfig config_;
  const CollectiveOptions options_;
  const Peer chief_;
  const net::Identity self_;
  RunTerms terms_;
  /// Whether this process holds a state of the run.
  bool has_state_;
  /// Messages of steps in this epoch.
  std::int64_t sequence_ = 0;
  std::int64_t last_epoch_ = 0;

  // What the threads that receive share with the loop's.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::shared_ptr<net::Connection> control_;
  std::string control_lost_;
  std::chrono::steady_clock::time_point heard_;
  std::optional<RunTerms> chief_terms_;
  std::string refused_;
  std::optional<EpochPlan> plan_;
  std::optional<Source> source_;
  bool ended_ = false;
  std::map<std::pair<std::int64_t, std::string>, std::unique_ptr<net::Connection>> accepted_;
  std::unique_ptr<Group> group_;

  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<net::Listener> listener_;
  std::jthread control_thread_;
  std::jthread beat_thread_;
};

Collective::Collective(const RunConfig& config, CollectiveOptions options)
    : config_(config),
      options_(std::move(options)),
      chief_(chief_of(config.task)),
      self_{.task = config.task.task.name(),
            .run_id = options_.run_id.empty()
                          ? variable_or("MUSTER_RUN_ID", "run of " + chief_.address)
                          : options_.run_id,
            .secret = options_.secret.empty() ? variable_or("MUSTER_SECRET", "") : options_.secret},
      has_state_(config.is_chief()) {}

Collective::~Collective() {
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

std::string Collective::describe() const {
  return fmt::format("collective: {} tasks, each with a copy of the variables; chief {} at {}",
                     config_.task.num_worker_replicas, chief_.task.name(), chief_.address);
}

// -------------------------------------------------------------------------- who takes part

void Collective::accept(std::unique_ptr<net::Connection> connection) {
  if (connection->purpose() == kControlPurpose) {
    if (coordinator_ != nullptr) coordinator_->serve(std::move(connection));
    return;
  }
  const std::string purpose = connection->purpose();
  if (!purpose.starts_with(kDataPurpose)) {
    log::warning("{} wants '{}', which this task does not do", connection->peer(), purpose);
    return;
  }
  const std::int64_t epoch = std::atoll(purpose.substr(kDataPurpose.size()).c_str());
  const std::lock_guard lock(mutex_);
  accepted_[{epoch, connection->peer_task()}] = std::move(connection);
  changed_.notify_all();
}

void Collective::handle(const net::Frame& frame) {
  const std::lock_guard lock(mutex_);
  heard_ = std::chrono::steady_clock::now();
  switch (static_cast<MessageType>(frame.type)) {
    case MessageType::kBeat:
      return;
    case MessageType::kTerms:
      chief_terms_ = decode_terms(frame.head);
      break;
    case MessageType::kRefused:
      refused_ = frame.head;
      break;
    case MessageType::kEpoch:
      plan_ = decode_epoch(frame.head);
      source_.reset();
      if (group_ != nullptr) {
        group_->interrupt(
            fmt::format("epoch {} begins with {} tasks", plan_->number, plan_->members.size()));
      }
      break;
    case MessageType::kSource:
      source_ = decode_source(frame.head);
      break;
    case MessageType::kEnd:
      ended_ = true;
      if (group_ != nullptr) group_->end();
      break;
    default:
      throw DataLoss("the coordinator sent a message of type {}", frame.type);
  }
  changed_.notify_all();
}

void Collective::listen_to_control(const std::shared_ptr<net::Connection>& control) {
  std::string why;
  try {
    while (const auto frame = control->receive(Deadline::never())) handle(*frame);
    why = fmt::format("{} has broken off", control->peer());
  } catch (const Error& error) {
    why = error.what();
  }
  const std::lock_guard lock(mutex_);
  control_lost_ = why;
  if (group_ != nullptr) group_->interrupt(why);
  changed_.notify_all();
}

// Says that this task lives, and notices when the coordinator does so no longer.
void Collective::beat() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (control_ != nullptr && control_lost_.empty()) {
      const auto control = control_;
      const auto silence = std::chrono::steady_clock::now() - heard_;
      lock.unlock();
      if (silence > config_.peer_timeout) {
        log::warning("{} has not been heard of for {:.1f} s", control->peer(),
                     std::chrono::duration<double>(silence).count());
        control->close();
      } else {
        try {
          control->send(static_cast<std::uint32_t>(MessageType::kBeat), {},
                        Deadline::after(kTellTimeout));
        } catch (const Error&) {
          control->close();  // The thread that receives says why.
        }
      }
      lock.lock();
    }
    changed_.wait_for(lock, kBeatEvery, [this] { return stopping_; });
  }
}

void Collective::tell_coordinator(MessageType type, const std::string& head) {
  std::shared_ptr<net::Connection> control;
  {
    const std::lock_guard lock(mutex_);
    control = control_;
  }
  try {
    control->send(static_cast<std::uint32_t>(type), head, Deadline::after(kTellTimeout));
  } catch (const Error&) {
    control->close();  // The thread that receives says why.
  }
}

void Collective::connect_control(const Deadline& deadline) {
  if (control_thread_.joinable()) control_thread_.join();
  {
    // Of epochs that nobody remembers.
    const std::lock_guard lock(mutex_);
    accepted_.clear();
  }
  std::shared_ptr<net::Connection> control = net::Connection::connect(
      chief_.address, self_, kControlPurpose, deadline, {.peer_task = chief_.task.name()});
  control->send(
      static_cast<std::uint32_t>(MessageType::kJoin),
      encode(Join{
          .terms = terms_, .address = own_address(config_.task), .is_chief = config_.is_chief()}),
      deadline);
  std::unique_lock lock(mutex_);
  control_ = control;
  control_lost_.clear();
  chief_terms_.reset();
  plan_.reset();
  source_.reset();
  // A chief that came back counts its epochs from the beginning.
  last_epoch_ = 0;
  heard_ = std::chrono::steady_clock::now();
  control_thread_ = std::jthread([this, control] { listen_to_control(control); });
  wait(
      changed_, lock, deadline,
      [&] { return fmt::format("{}: an answer to the request to join", control->peer()); },
      [this] { return chief_terms_ || !refused_.empty() || !control_lost_.empty(); });
  if (!refused_.empty()) {
    throw FailedPrecondition("{} cannot take part in the run of {}: {}", self_.task,
                             control->peer(), refused_);
  }
}

RunTerms Collective::join(const RunTerms& own) {
  terms_ = own;
  if (config_.is_chief()) {
    coordinator_ = std::make_unique<Coordinator>(
        CoordinatorOptions{.terms = own,
                           .expected = static_cast<std::size_t>(config_.task.num_worker_replicas),
                           .join_timeout = config_.join_timeout,
                           .peer_timeout = config_.peer_timeout});
  }
  listener_ = std::make_unique<net::Listener>(
      listening_address(own_address(config_.task)), self_,
      [this](std::unique_ptr<net::Connection> connection) { accept(std::move(connection)); });
  const Deadline deadline = Deadline::after(config_.session_creation_timeout_secs);
  for (;;) {
    connect_control(deadline);
    const std::lock_guard lock(mutex_);
    if (chief_terms_) break;
  }
  beat_thread_ = std::jthread([this] { beat(); });
  return *chief_terms_;
}

std::size_t Collective::rank_in(const EpochPlan& plan) const {
  for (std::size_t r = 0; r < plan.members.size(); ++r) {
    if (plan.members[r].task == self_.task) return r;
  }
  throw Internal("epoch {} is without {}, which was told of it", plan.number, self_.task);
}

// ------------------------------------------------------------------------ a new beginning

// The plan of an epoch that this process has not been in.
EpochPlan Collective::next_plan(const Deadline& deadline) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wait(
          changed_, lock, deadline,
          [this] {
            return fmt::format("{} at {}: who takes part", chief_.task.name(), chief_.address);
          },
          [this] {
            return ended_ || !control_lost_.empty() || (plan_ && plan_->number > last_epoch_);
          });
      if (ended_) return {};
      if (control_lost_.empty()) return *plan_;
      log::warning("{} is lost and waited for: {}", chief_.task.name(), control_lost_);
    }
    connect_control(deadline);
  }
}

std::unique_ptr<net::Connection> Collective::accepted_from(const std::string& task,
                                                           std::int64_t epoch,
                                                           const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  wait_until(
      changed_, lock, deadline, [&] { return fmt::format("{}: its connection", task); },
      [&] {
        return accepted_.contains({epoch, task}) || is_void(epoch);
      });
  auto node = accepted_.extract({epoch, task});
  if (node.empty()) throw PeersChanged("{} has not connected for epoch {}", task, epoch);
  return std::move(node.mapped());
}

Collective::Connections Collective::connect_group(const EpochPlan& plan, std::size_t rank,
                                                  const Deadline& deadline) {
  Connections connections(plan.members.size());
  const std::string purpose = fmt::format("{}{}", kDataPurpose, plan.number);
  for (std::size_t r = 0; r < rank; ++r) {
    const EpochMember& member = plan.members[r];
    try {
      connections[r] = net::Connection::connect(member.address, self_, purpose, deadline,
                                                {.peer_task = member.task});
    } catch (const Error& error) {
      throw PeersChanged("{}", error.what());
    }
  }
  for (std::size_t r = rank + 1; r < plan.members.size(); ++r) {
    connections[r] = accepted_from(plan.members[r].task, plan.number, deadline);
  }
  return connections;
}

// Nothing when another epoch begins instead.
std::optional<Source> Collective::wait_for_source(std::int64_t epoch, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  wait(
      changed_, lock, deadline,
      [&] {
        return fmt::format("all tasks of epoch {} to get ready; the log of {} says who is not",
                           epoch, chief_.task.name());
      },
      [&] { return is_void(epoch) || (source_ && source_->epoch == epoch); });
  if (is_void(epoch)) return std::nullopt;
  return source_;
}

void Collective::synchronize(const RunImage& own,
                             const std::function<void(const RunImage&)>& take) {
  if (group_ != nullptr) {
    // It may be only this task that noticed.
    tell_coordinator(MessageType::kBroken, encode_number(group_->plan().number));
  }
  const Deadline deadline =
      Deadline::after(has_state_ && !config_.is_chief()
                          ? std::chrono::milliseconds(config_.join_timeout)
                          : std::chrono::milliseconds(config_.session_creation_timeout_secs));
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      group_.reset();
    }
    const EpochPlan plan = next_plan(deadline);
    if (plan.members.empty()) {
      // The run ended while this task was away: it takes part in no step.
      EpochPlan alone{.number = 0, .members = {{self_.task, "", {0, 0}}}};
      const std::lock_guard lock(mutex_);
      group_ = std::make_unique<Group>(std::move(alone), 0, Connections(1));
      group_->end();
      return;
    }
    last_epoch_ = plan.number;
    const std::size_t rank = rank_in(plan);
    try {
      auto connections = connect_group(plan, rank, Deadline::after(2 * config_.peer_timeout));
      {
        const std::lock_guard lock(mutex_);
        group_ = std::make_unique<Group>(plan, rank, std::move(connections));
        std::erase_if(accepted_,
                      [&](const auto& entry) { return entry.first.first < plan.number; });
      }
      const Progress progress =
          has_state_ ? Progress{own.step, own.left_out} : Progress{.step = -1};
      tell_coordinator(MessageType::kReady, encode(Ready{plan.number, progress}));
      const auto source = wait_for_source(plan.number, deadline);
      if (!source) continue;
      if (source->rank == rank) {
        for (const std::size_t to : source->to) send_image(own, to);
      } else if (std::ranges::find(source->to, rank) != source->to.end()) {
        receive_image(source->rank, own, take);
      }
      has_state_ = true;
      sequence_ = 0;
      return;
    } catch (const PeersChanged& error) {
      log::warning("epoch {} ends before it began: {}", plan.number, error.what());
      tell_coordinator(MessageType::kBroken, encode_number(plan.number));
    }
  }
}

void Collective::send_image(const RunImage& own, std::size_t to) {
  log::info("sending step {} to {}", own.step, group_->plan().members[to].task);
  HeadWriter head;
  head.put(own.step);
  head.put(own.left_out);
  head.put(own.inputs_from);
  head.put(own.state_json);
  head.put_number(own.tensors.size());
  for (const NamedTensor& named : own.tensors) {
    head.put(named.name);
    head.put_number(static_cast<int>(named.tensor.scalar_type()));
    head.put_number(named.tensor.nbytes());
  }
  group_->send(to, MessageType::kImage, head.bytes(), {});
  for (const NamedTensor& named : own.tensors) {
    const at::Tensor whole = named.tensor.contiguous();
    std::span<const std::byte> rest = bytes_of(whole);
    while (!rest.empty()) {
      const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kTensorPiece));
      group_->send(to, MessageType::kTensor, {}, std::span(&piece, 1));
      rest = rest.subspan(piece.size());
    }
  }
}

// Values are taken over when all are there: a sender that is lost on the way leaves no mixture.
void Collective::receive_image(std::size_t from, const RunImage& own,
                               const std::function<void(const RunImage&)>& take) {
  const std::string& task = group_->plan().members[from].task;
  const auto next = [&](MessageType type) {
    auto frame = group_->take(from, type, "the state of the run");
    if (!frame) throw PeersChanged("the run has ended");
    return std::move(*frame);
  };
  const net::Frame frame = next(MessageType::kImage);
  HeadReader head(frame.head);
  RunImage image;
  image.step = head.number();
  image.left_out = head.number();
  image.inputs_from = head.number();
  image.state_json = head.text();
  const std::size_t count = head.count(24);
  if (count != own.tensors.size()) {
    throw FailedPrecondition("{} trains another model: it has {} variables and slots, {} has {}",
                             task, count, self_.task, own.tensors.size());
  }
  for (const NamedTensor& mine : own.tensors) {
    const std::string_view name = head.text();
    const std::int64_t type = head.number();
    const std::int64_t bytes = head.number();
    if (name != mine.name || type != static_cast<std::int64_t>(mine.tensor.scalar_type()) ||
        bytes != static_cast<std::int64_t>(mine.tensor.nbytes())) {
      throw FailedPrecondition(
          "{} trains another model: it has {} with {} bytes where {} has {} with {}", task, name,
          bytes, self_.task, mine.name, mine.tensor.nbytes());
    }
  }
  for (const NamedTensor& mine : own.tensors) {
    at::Tensor whole = at::empty(mine.tensor.sizes(), mine.tensor.options());
    std::span<std::byte> rest = bytes_of(whole);
    while (!rest.empty()) {
      const net::Frame piece = next(MessageType::kTensor);
      if (piece.body.empty() || piece.body.size() > rest.size()) {
        throw DataLoss("{} sent {} bytes of {}, which has {} left", task, piece.body.size(),
                       mine.name, rest.size());
      }
      std::ranges::copy(piece.body.bytes(), rest.begin());
      rest = rest.subspan(piece.body.size());
    }
    image.tensors.push_back({mine.name, std::move(whole)});
  }
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < image.tensors.size(); ++i) {
    own.tensors[i].tensor.copy_(image.tensors[i].tensor);
  }
  log::info("going on from step {} of {}", image.step, task);
  take(image);
}

// --------------------------------------------------------------------------------- a step

// The sums of all parts; of the dense gradients where they are sliced, only this task's slice.
StepParts Collective::add_up(std::vector<ReceivedStep>& received, StepParts& own,
                             const StepNotes& notes, bool sliced) const {
  const torch::NoGradGuard no_grad;
  StepParts total{.present = own.present,
                  .examples = own.examples,
                  .losses = std::move(own.losses),
                  .spec = std::move(own.spec)};
  TreeSum<Gradients> sum(terms_.replicas,
                         [](Gradients& into, Gradients&& from) { add_gradients(into, from); });
  const auto report = [&](TreeSum<Gradients>::Parts& parts) {
    for (auto& [part, value] : parts) sum.report_part(part, std::move(value));
  };
  if (sliced) {
    const Slice slice = slice_of(notes.flat_size, group_->rank(), group_->size());
    for (auto& [part, value] : own.sums) {
      if (value) value->flat = value->flat.slice(0, slice.first, slice.last);
    }
  }
  report(own.sums);
  for (ReceivedStep& other : received) {
    total.present += other.parts.present;
    total.examples += other.parts.examples;
    for (std::int64_t r = other.replicas.first; r < other.replicas.last; ++r) {
      const auto index = static_cast<std::size_t>(r);
      total.losses[index] = std::move(other.parts.losses[index]);
    }
    report(other.parts.sums);
  }
  total.sums = sum.take_parts();
  return total;
}

// Makes whole gradients of the slices that the tasks have added up. False when the run has ended.
bool Collective::exchange_slices(at::Tensor& flat, std::int64_t step) {
  const std::int64_t elements = flat.numel();
  const auto bytes = bytes_of(flat);
  const auto piece_of = [&](std::int64_t first, std::int64_t last) {
    return bytes.subspan(static_cast<std::size_t>(first) * 4,
                         static_cast<std::size_t>(last - first) * 4);
  };
  const Slice mine = slice_of(elements, group_->rank(), group_->size());
  for (std::int64_t first = mine.first; first < mine.last; first += kSlicePiece) {
    const std::span<const std::byte> piece =
        piece_of(first, std::min(mine.last, first + kSlicePiece));
    for (std::size_t i = 1; i < group_->size(); ++i) {
      group_->send((group_->rank() + i) % group_->size(), MessageType::kSlice, {},
                   std::span(&piece, 1));
    }
  }
  const std::string what = fmt::format("its part of the sum of step {}", step + 1);
  for (std::size_t i = 1; i < group_->size(); ++i) {
    const std::size_t from = (group_->rank() + group_->size() - i) % group_->size();
    const Slice slice = slice_of(elements, from, group_->size());
    for (std::int64_t first = slice.first; first < slice.last; first += kSlicePiece) {
      const auto target = piece_of(first, std::min(slice.last, first + kSlicePiece));
      const auto frame = group_->take(from, MessageType::kSlice, what);
      if (!frame) return false;
      if (frame->body.size() != target.size()) {
        throw DataLoss("{} sent {} bytes of its part of the sum where {} were due",
                       group_->plan().members[from].task, frame->body.size(), target.size());
      }
      std::ranges::copy(frame->body.bytes(), target.begin());
    }
  }
  return true;
}

std::optional<StepParts> Collective::sum(std::int64_t step, StepParts own, StepNotes& notes) {
  const std::size_t size = group_->size();
  const bool sliced = size > 1 && notes.flat_size * 4 > options_.slice_above;
  const std::int64_t sequence = sequence_++;
  const Slice all{0, notes.flat_size};
  for (std::size_t i = 1; i < size; ++i) {
    const std::size_t to = (group_->rank() + i) % size;
    const auto message = encode_step(step, sequence, own, notes, group_->replicas(),
                                     sliced ? slice_of(notes.flat_size, to, size) : all);
    group_->send(to, MessageType::kStep, message.head, message.body);
  }
  const std::string what = fmt::format("the gradients of step {}", step + 1);
  const Slice mine = sliced ? slice_of(notes.flat_size, group_->rank(), size) : all;
  std::vector<ReceivedStep> received;
  for (std::size_t r = 0; r < size; ++r) {
    if (r == group_->rank()) continue;
    auto frame = group_->take(r, MessageType::kStep, what);
    if (!frame) return std::nullopt;
    try {
      received.push_back(decode_step(frame->head, std::move(frame->body), step, sequence,
                                     terms_.replicas, mine, notes));
    } catch (Error& error) {
      error.add_context(fmt::format("from {}", group_->plan().members[r].task));
      throw;
    }
  }
  if (size == 1) {
    const std::lock_guard lock(mutex_);
    if (ended_) return std::nullopt;
    if (plan_ && plan_->number != group_->plan().number) {
      throw PeersChanged("epoch {} begins with {} tasks", plan_->number, plan_->members.size());
    }
    if (!control_lost_.empty()) throw PeersChanged("{}", control_lost_);
  }
  StepParts total = add_up(received, own, notes, sliced);
  if (sliced && total.present > 0) {
    at::Tensor whole = at::empty({notes.flat_size}, at::kFloat);
    auto& sum = total.sums.begin()->second;
    whole.slice(0, mine.first, mine.last).copy_(sum->flat);
    if (!exchange_slices(whole, step)) return std::nullopt;
    sum->flat = std::move(whole);
  }
  // Nothing is written before everything has come.
  const torch::NoGradGuard no_grad;
  for (ReceivedStep& other : received) {
    for (std::size_t i = 0; i < other.positions.size(); ++i) {
      notes.positions[static_cast<std::size_t>(other.replicas.first) + i] =
          std::move(other.positions[i]);
    }
    for (std::size_t i = 0; i < other.buffers.size(); ++i) {
      notes.buffers[i].copy_(other.buffers[i]);
    }
  }
  return total;
}

void Collective::finish(std::int64_t step, bool early) {
  if (coordinator_ != nullptr) {
    coordinator_->end(step);
    return;
  }
  if (!early) {
    // The chief is about to say so. If it is lost now, it goes on from what others have.
    std::unique_lock lock(mutex_);
    wait_until(
        changed_, lock, Deadline::after(config_.peer_timeout),
        [this] { return fmt::format("{}: the end of the run", chief_.task.name()); },
        [this] { return ended_ || !control_lost_.empty(); });
  }
  tell_coordinator(MessageType::kLeave, {});
}

}  // namespace
}  // namespace internal

std::unique_ptr<Strategy> make_collective(const RunConfig& config,
                                          const CollectiveOptions& options) {
  return std::make_unique<internal::Collective>(config, options);
}

}  // namespace muster
