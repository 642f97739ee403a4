#pragma once

#include <cstdint>

/// The parts of a run's seed, for derive_key(seed, stream): named in one place, so that no two uses
/// can meet.
namespace muster::seed_stream {

inline constexpr std::uint64_t kWeights = 1;
inline constexpr std::uint64_t kGenerator = 2;
inline constexpr std::uint64_t kTrainInput = 3;
inline constexpr std::uint64_t kEvalInput = 4;
inline constexpr std::uint64_t kPredictInput = 5;

}  // namespace muster::seed_stream
