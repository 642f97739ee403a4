#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/engine/strategy.h"

// What tasks say to the one that knows who takes part, and what it says to them.
namespace muster::internal {

/// What a connection is for: the purpose that the side which connects names.
inline constexpr std::string_view kControlPurpose = "control";
/// A ps that was told nothing asks the chief for its arguments.
inline constexpr std::string_view kArgumentsPurpose = "arguments";
/// With the generation behind it.
inline constexpr std::string_view kDataPurpose = "data ";

/// Both sides of a control connection say so often that they live.
inline constexpr std::chrono::milliseconds kBeatEvery{500};
/// Messages about who takes part are small: whoever does not take one in this time is stopped or
/// gone.
inline constexpr std::chrono::seconds kTellTimeout{2};

enum class MessageType : std::uint32_t {
  // From a task to the coordinator.
  kJoin = 1,
  kReady,
  kBroken,
  kLeave,
  // From the coordinator to a task.
  kTerms = 16,
  kRefused,
  kGeneration,
  kSource,
  kEnd,
  kFailed,
  kLogRun,
  kArguments,
  /// The chief saves the last step: nobody who comes or goes changes anything any more.
  kEnding,
  // Both ways: nothing but a sign of life.
  kBeat = 32,
  // Between tasks that train.
  kStep = 48,
  kPart,
  kSlice,
  kSnapshot,
  kTensor,
  // Between tasks that train and those that hold variables.
  kPush,
  kSquares,
  kChoice,
  kArrived,
  kValues,
  kFetch,
  kSlots,
};

/// What a task brings along.
struct Join {
  RunTerms terms{};
  /// Where others reach it.
  std::string address{};
  bool is_chief = false;
  /// Holds variables, and runs no replicas.
  bool is_server = false;
};

/// How far a task is; a step of -1 stands for one that has no state of the run yet.
struct Progress {
  std::int64_t step = -1;
  std::int64_t left_out = 0;

  bool operator==(const Progress&) const = default;
  bool operator<(const Progress& other) const {
    return step != other.step ? step < other.step : left_out < other.left_out;
  }
};

struct Ready {
  std::int64_t generation = 0;
  Progress progress{};
};

/// Who takes part in a generation. A task's place in the list is its rank.
struct GenerationMember {
  std::string task{};
  std::string address{};
  ReplicaRange replicas{};
};
struct GenerationPlan {
  std::int64_t number = 0;
  /// Those that train come first, the chief at the header of them.
  std::vector<GenerationMember> members{};
  std::size_t trainers = 0;
};

/// All are ready: the task of this rank sends its state to those who lack it.
struct Source {
  std::int64_t generation = 0;
  std::size_t rank = 0;
  std::vector<std::size_t> to{};
  /// How far the source is.
  Progress progress{};
  /// Somebody lost what only it had: the chief goes back to its last checkpoint, and all with it.
  bool go_back = false;
};

std::string encode(const Join& message);
std::string encode(const RunTerms& message);
std::string encode(const Ready& message);
std::string encode(const GenerationPlan& message);
std::string encode(const Source& message);
/// Of kArguments.
std::string encode(const std::vector<std::string>& words);
std::vector<std::string> decode_words(std::string_view header);
/// Throw DataLoss for what is no such message.
Join decode_join(std::string_view header);
RunTerms decode_terms(std::string_view header);
Ready decode_ready(std::string_view header);
GenerationPlan decode_generation(std::string_view header);
Source decode_source(std::string_view header);

/// A number or a text alone: of kBroken (generation), kEnd (step); kRefused (why) and kLogRun are
/// texts.
std::string encode_number(std::int64_t number);
std::int64_t decode_number(std::string_view header);

/// The first term in which the two differ, in words; empty when they can train together.
/// Replicas, threads and the seed are the chief's to decide; a task that was told nothing takes
/// them over. `is_server`: the task holds variables, and need not know all that the others do.
std::string difference(const RunTerms& chief, const RunTerms& task, bool is_server);

}  // namespace muster::internal
