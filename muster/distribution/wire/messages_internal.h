#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "muster/distribution/wire/message_entry_internal.h"
#include "muster/distribution/wire/tensors_internal.h"
#include "muster/train/engine/strategy.h"

// Everything that tasks say to each other. A message is a struct with its fields() here and a line
// in the table at the end; encoding, decoding, limits and its name in errors follow. A message
// whose fields must fit together has a check(), which throws DataLoss.
namespace muster::internal {

template <>
struct ForeignFields<RunTerm> {
  static auto fields(auto& self) { return std::tie(self.name, self.value); }
};
template <>
struct ForeignFields<RunContract> {
  static auto fields(auto& self) {
    return std::tie(self.replicas, self.threads_per_replica, self.seed, self.precision,
                    self.arithmetic, self.last_step, self.others);
  }
};
template <>
struct ForeignFields<ReplicaRange> {
  static auto fields(auto& self) { return std::tie(self.first, self.last); }
};

// ---------------------------------------------------------- from a task to the coordinator

/// Request of a task to join, with its terms, its address and its part in the run.
struct Join {
  RunContract terms{};
  /// Where others reach it.
  std::string address{};
  bool is_chief = false;
  /// Holds variables, and runs no replicas.
  bool is_server = false;
  /// Those of its host that it may run on, by number; empty where the system does not tell.
  std::vector<std::int64_t> processors{};

  static auto fields(auto& self) {
    return std::tie(self.terms, self.address, self.is_chief, self.is_server, self.processors);
  }
};

/// How far a task is; a step of -1 stands for one that has no state of the run yet.
struct Progress {
  std::int64_t step = -1;
  std::int64_t skipped_batches = 0;

  static auto fields(auto& self) { return std::tie(self.step, self.skipped_batches); }
  bool operator==(const Progress&) const = default;
  bool operator<(const Progress& other) const {
    return step != other.step ? step < other.step : skipped_batches < other.skipped_batches;
  }
};

/// It is connected with those of the generation that it speaks with.
struct Ready {
  std::int64_t generation = 0;
  Progress progress{};

  static auto fields(auto& self) { return std::tie(self.generation, self.progress); }
};

/// A task of the generation is gone.
struct Broken {
  std::int64_t generation = 0;

  static auto fields(auto& self) { return std::tie(self.generation); }
};

struct Leave {};

/// A server has written its part of a checkpoint, or could not.
struct PartWritten {
  /// CheckpointParts::id().
  std::string id{};
  /// BundleWriter::finish_part(), or why there is none.
  std::string index{};
  std::string failure{};

  static auto fields(auto& self) { return std::tie(self.id, self.index, self.failure); }
};

// ---------------------------------------------------------- from the coordinator to a task

/// It takes part, by these terms.
struct Admitted {
  RunContract terms{};

  static auto fields(auto& self) { return std::tie(self.terms); }
};

struct Refused {
  std::string why{};

  static auto fields(auto& self) { return std::tie(self.why); }
};

/// Who takes part in a generation. A task's place in the list is its rank.
struct GenerationMember {
  std::string task{};
  std::string address{};
  ReplicaRange replicas{};
  /// There are more tasks than processors on its host, and it takes turns with the task of the rank
  /// before it.
  bool shares_processor = false;

  static auto fields(auto& self) {
    return std::tie(self.task, self.address, self.replicas, self.shares_processor);
  }
};
struct GenerationPlan {
  std::int64_t number = 0;
  /// Those that train come first, the chief at the head of them.
  std::vector<GenerationMember> members{};
  std::size_t trainers = 0;

  static auto fields(auto& self) { return std::tie(self.number, self.trainers, self.members); }
  void check(const ExpectedTensors& /*expected*/) const;
};

/// All are ready: the task of this rank sends its state to those who lack it.
struct Source {
  std::int64_t generation = 0;
  std::size_t rank = 0;
  std::vector<std::size_t> to{};
  /// How far the source is.
  Progress progress{};
  /// A task lost state only it had: the chief goes back to its last checkpoint, and all with it.
  bool go_back = false;

  static auto fields(auto& self) {
    return std::tie(self.generation, self.rank, self.to, self.progress, self.go_back);
  }
};

/// The run is over, or the chief was stopped by a signal before its last step.
struct RunEnded {
  std::int64_t step = 0;
  std::int64_t signal = 0;

  static auto fields(auto& self) { return std::tie(self.step, self.signal); }
};

/// The run cannot continue.
struct RunFailed {
  std::string why{};

  static auto fields(auto& self) { return std::tie(self.why); }
};

/// Name of the run in the logs of servers; empty: they keep none.
struct LogRun {
  std::string run{};

  static auto fields(auto& self) { return std::tie(self.run); }
};

/// RunConfig::cluster.arguments of the chief.
struct ChiefArguments {
  std::vector<std::string> words{};

  static auto fields(auto& self) { return std::tie(self.words); }
};

/// The chief saves the last step: tasks that come or go change nothing any more.
struct RunEnding {};

/// Both ways: nothing but a sign of life.
struct Heartbeat {};

// ---------------------------------------------------------- the state of a run

struct SnapshotTensor {
  std::string name{};
  at::ScalarType type = at::kFloat;
  std::uint64_t bytes = 0;

  static auto fields(auto& self) { return std::tie(self.name, self.type, self.bytes); }
};
/// A RunSnapshot; the bytes of its tensors follow in SnapshotPieces.
struct SnapshotHeader {
  std::int64_t step = 0;
  std::int64_t skipped_batches = 0;
  std::int64_t inputs_from = 0;
  std::string state_json{};
  std::vector<SnapshotTensor> tensors{};

  static auto fields(auto& self) {
    return std::tie(self.step, self.skipped_batches, self.inputs_from, self.state_json,
                    self.tensors);
  }
};
struct SnapshotPiece {
  BodyBytes values{};

  static auto fields(auto& self) { return std::tie(self.values); }
};

/// A text about the GPUs of a generation's tasks: which one the sender has, to the task from which
/// it has the state; NCCL's identifier of all, from the first; a handle of memory that is shared.
struct DeviceGroup {
  std::string id{};

  static auto fields(auto& self) { return std::tie(self.id); }
};

// ---------------------------------------------------------- gradients

/// Report on a replica that the sender runs: its loss, if it had a batch, and its input position.
struct ReplicaReport {
  std::optional<double> loss{};
  std::optional<std::string> position{};

  static auto fields(auto& self) { return std::tie(self.loss, self.position); }
};
/// Over the replicas [first, last) of the tree; nothing where all of them were without a batch.
struct TreePart {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::optional<VariableTensors> sum{};

  static auto fields(auto& self) { return std::tie(self.first, self.last, self.sum); }
};
/// How large a task's batches are: `examples` in `present` replicas.
struct TaskBatches {
  std::size_t rank = 0;
  std::int64_t present = 0;
  std::int64_t examples = 0;

  static auto fields(auto& self) { return std::tie(self.rank, self.present, self.examples); }
};
/// A task's gradients of a step that all make together: to the others that train, or to a server.
/// Where tasks pass on what others have, its replicas are those of several tasks.
struct StepGradients {
  std::int64_t step = 0;
  /// Number of the message among those of its kind in this generation.
  std::int64_t sequence = 0;
  ReplicaRange replicas{};
  std::int64_t present = 0;
  std::int64_t examples = 0;
  /// By replica of `replicas`.
  std::vector<ReplicaReport> reports{};
  std::vector<TreePart> sums{};
  /// Replica 0's, if it is one of them.
  BufferTensors buffers{};
  /// Batches of the tasks behind these gradients, in a generation's first such message; else empty.
  std::vector<TaskBatches> batches{};

  static auto fields(auto& self) {
    return std::tie(self.step, self.sequence, self.replicas, self.present, self.examples,
                    self.reports, self.sums, self.buffers, self.batches);
  }
  void check(const ExpectedTensors& expected) const;
};

/// A piece of the slice that the receiver adds up, as the sender has it.
struct SlicePart {
  BodyBytes values{};

  static auto fields(auto& self) { return std::tie(self.values); }
};
/// A piece of the sender's slice, added up.
struct SliceSum {
  BodyBytes values{};

  static auto fields(auto& self) { return std::tie(self.values); }
};

/// With StepGradients where the run is sharded: all write their parts of a checkpoint, of the
/// values that this step begins with.
struct PartOrder {
  /// CheckpointParts::id(); empty: none is written.
  std::string id{};
  /// No step follows, and this one is not made.
  bool is_last = false;

  static auto fields(auto& self) { return std::tie(self.id, self.is_last); }
};
/// A piece of the values that the sender has updated, or was given by those that have.
struct ShardValues {
  BodyBytes values{};

  static auto fields(auto& self) { return std::tie(self.values); }
};

/// A task's push to a server that applies every push as it comes: the mean over its replicas that
/// had a batch.
struct AsyncPush {
  ReplicaRange replicas{};
  /// 0: none of its replicas has a batch any more.
  std::int64_t present = 0;
  std::int64_t examples = 0;
  double loss = 0;
  /// Input positions of `replicas`, for the first server; else empty.
  std::vector<std::optional<std::string>> positions{};
  /// Nothing where there is nothing to apply.
  std::optional<VariableTensors> gradients{};
  /// Those of replica 0 for the first server, if the task runs it; else empty.
  BufferTensors buffers{};

  static auto fields(auto& self) {
    return std::tie(self.replicas, self.present, self.examples, self.loss, self.positions,
                    self.gradients, self.buffers);
  }
  void check(const ExpectedTensors& expected) const;
};

// ---------------------------------------------------------- between servers

/// Squares of gradients by block, of the sender's part; those of others are 0.
struct Norms {
  std::int64_t step = 0;
  BodyDoubles squares{};

  static auto fields(auto& self) { return std::tie(self.step, self.squares); }
};

/// To the first server: the sender has its part of what this task pushes.
struct PushArrived {
  std::size_t rank = 0;

  static auto fields(auto& self) { return std::tie(self.rank); }
  void check(const ExpectedTensors& expected) const;
};

/// Whose gradients a step is made of. The first server chooses, and tells the others: each of them
/// hears the tasks in an order of its own.
struct StepChoice {
  /// Ranks of tasks whose gradients count; none: no step is made.
  std::vector<std::size_t> counted{};
  /// Those that have pushed for an earlier step. They get the values of this one.
  std::vector<std::size_t> late{};

  static auto fields(auto& self) { return std::tie(self.counted, self.late); }
  void check(const ExpectedTensors& expected) const;
};

// ---------------------------------------------------------- from a server

/// The part of a StepResult that travels.
struct StepOutcome {
  std::int64_t present = 0;
  std::int64_t examples = 0;
  std::string not_finite{};
  /// By replica; nothing for one without a batch.
  std::vector<std::optional<double>> losses{};

  static auto fields(auto& self) {
    return std::tie(self.present, self.examples, self.not_finite, self.losses);
  }
};
StepOutcome outcome_of(const StepResult& result);
StepResult result_of(const StepOutcome& outcome);

/// How many updates old the values were that gradients were computed with.
struct Staleness {
  std::int64_t updates = 0;
  std::int64_t sum = 0;
  std::int64_t max = 0;

  static auto fields(auto& self) { return std::tie(self.updates, self.sum, self.max); }
  void add(std::int64_t age) {
    ++updates;
    sum += age;
    max = std::max(max, age);
  }
  double mean() const {
    return updates == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(updates);
  }
};

/// Outcome of pushes that are applied as they come.
struct AsyncNotes {
  /// Staleness of all pushes that the server has applied.
  Staleness staleness{};
  /// Pushes that were too old to be applied.
  std::int64_t too_old = 0;
  /// The push that this answers is one of those: no other server is to apply it either.
  bool dropped = false;

  static auto fields(auto& self) { return std::tie(self.staleness, self.too_old, self.dropped); }
};

/// The values of a server's part after a step, or all of them for a task that lacks them.
struct Values {
  std::int64_t step = 0;
  StepOutcome outcome{};
  /// Input positions of all replicas.
  InputPositions positions{};
  /// Fields of a RunSnapshot, for a task that joins; else empty.
  std::int64_t skipped_batches = 0;
  std::int64_t inputs_from = 0;
  std::string state_json{};
  AsyncNotes notes{};
  /// Nothing where nothing was updated. Of tables, the rows that are new.
  std::optional<VariableTensors> values{};
  /// Replica 0's after a step; for a task that joins, everything that is not trained.
  BufferTensors buffers{};

  static auto fields(auto& self) {
    return std::tie(self.step, self.outcome, self.positions, self.skipped_batches, self.inputs_from,
                    self.state_json, self.notes, self.values, self.buffers);
  }
};

/// From a task to a server: it wants the slots.
struct SlotsRequest {
  /// But for those that are in the server's part of a checkpoint.
  bool without_parts = false;

  static auto fields(auto& self) { return std::tie(self.without_parts); }
};

/// One of the slots of the server's part; all follow each other.
struct SlotPiece {
  BodyBytes values{};

  static auto fields(auto& self) { return std::tie(self.values); }
};

// ---------------------------------------------------------- checkpoints in parts

/// From the chief to a server: whether it sees this file of the chief's model_dir, and can write
/// the same into another one beside it.
struct FolderRequest {
  std::string file{};
  std::string reply{};
  std::string text{};

  static auto fields(auto& self) { return std::tie(self.file, self.reply, self.text); }
};
struct FolderAnswer {
  bool is_seen = false;

  static auto fields(auto& self) { return std::tie(self.is_seen); }
};
/// From the chief to a server: it writes its part of the checkpoint, with the values that it has
/// now, says so at once (PartBegun) and tells the coordinator when that is done (PartWritten).
struct PartRequest {
  /// CheckpointParts::id().
  std::string id{};
  std::string name{};
  int shard = 0;
  int num_shards = 1;

  static auto fields(auto& self) {
    return std::tie(self.id, self.name, self.shard, self.num_shards);
  }
};
/// From a server to the chief: it has the request. One that is under way when a generation ends is
/// lost with it, and no task would ever report that part.
struct PartBegun {
  std::string id{};

  static auto fields(auto& self) { return std::tie(self.id); }
};

// ---------------------------------------------------------- in a server's log

/// A step whose gradients are added up, as PsLog writes it: no message, but by the same means.
struct LoggedStep {
  StepOutcome outcome{};
  InputPositions positions{};
  VariableTensors mean{};
  BufferTensors buffers{};

  static auto fields(auto& self) {
    return std::tie(self.outcome, self.positions, self.mean, self.buffers);
  }
};

// ---------------------------------------------------------- the table

/// Every message, by the number that it travels with and its name in errors.
using MessageTable = MessageList<
    // From a task to the coordinator.
    MessageEntry<1, "join", Join>,      //
    MessageEntry<2, "ready", Ready>,    //
    MessageEntry<3, "broken", Broken>,  //
    MessageEntry<4, "leave", Leave>,    //
    MessageEntry<5, "part written", PartWritten>,
    // From the coordinator to a task.
    MessageEntry<16, "admitted", Admitted>,          //
    MessageEntry<17, "refused", Refused>,            //
    MessageEntry<18, "generation", GenerationPlan>,  //
    MessageEntry<19, "source", Source>,              //
    MessageEntry<20, "run ended", RunEnded>,         //
    MessageEntry<21, "run failed", RunFailed>,       //
    MessageEntry<22, "log run", LogRun>,             //
    MessageEntry<23, "arguments", ChiefArguments>,   //
    MessageEntry<24, "run ending", RunEnding>,
    // Both ways.
    MessageEntry<32, "heartbeat", Heartbeat>,
    // Between tasks that train, and from the chief to servers.
    MessageEntry<48, "gradients", StepGradients>,            //
    MessageEntry<49, "slice part", SlicePart>,               //
    MessageEntry<50, "slice sum", SliceSum>,                 //
    MessageEntry<51, "snapshot", SnapshotHeader>,            //
    MessageEntry<52, "snapshot piece", SnapshotPiece>,       //
    MessageEntry<53, "device group", DeviceGroup>,           //
    MessageEntry<54, "part order", PartOrder, kUnreleased>,  //
    MessageEntry<55, "shard values", ShardValues, kUnreleased>,
    // Between tasks that train and those that hold variables, and among those.
    MessageEntry<64, "push", AsyncPush>,              //
    MessageEntry<65, "norms", Norms>,                 //
    MessageEntry<66, "choice", StepChoice>,           //
    MessageEntry<67, "push arrived", PushArrived>,    //
    MessageEntry<68, "values", Values>,               //
    MessageEntry<69, "slots request", SlotsRequest>,  //
    MessageEntry<70, "slot piece", SlotPiece>,        //
    MessageEntry<71, "folder question", FolderRequest>,
    MessageEntry<72, "folder answer", FolderAnswer>,  //
    MessageEntry<73, "part request", PartRequest>,    //
    MessageEntry<74, "part begun", PartBegun>>;

}  // namespace muster::internal
