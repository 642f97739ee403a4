#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/serving/core/model_config.h"

/// The rule that decides which version of a model answers a request, whatever the protocol.
namespace muster::serving {

/// The version that a request asks for. At most one of number, label and name is set; none leaves
/// the choice to the model's configuration.
struct VersionChoice {
  std::optional<std::int64_t> number{};
  std::string label{};
  /// A version as Cloud ML Engine names it: a label, or a number with or without a v in front.
  std::string name{};
  /// The key of the caller, such as a user's id: where versions share requests by weight, the same
  /// key gets the same version. Empty: each request is drawn for itself.
  std::string key{};

  bool operator==(const VersionChoice&) const = default;
};

/// The header of REST, and the metadata of gRPC, with a caller's key.
inline constexpr std::string_view kKeyHeader = "x-muster-key";

/// Whether a version answers requests now.
using Answers = std::function<bool(std::int64_t number)>;

/// The version that answers; nothing: the newest that does. In order:
///   1. the number, label or name of the request, whether that version answers or not;
///   2. weights: of the versions that answer, one by its share. The key decides, or without one
///      `draw`, a number that is random in all bits; without either the one with the largest share;
///   3. the default version.
/// Throws InvalidArgument for an unknown label, in the words of TensorFlow Serving.
///
/// Keys are hashed with the model's name, so that every server with the same weights sends a key to
/// the same version. If the weight of one version rises, keys move to it and no others move; those
/// of a version that stops to answer are shared by the others.
std::optional<std::int64_t> decide_version(const ModelConfig& config, const VersionChoice& choice,
                                           const Answers& answers,
                                           std::optional<std::uint64_t> draw);

/// The number behind a label. Throws InvalidArgument.
std::int64_t number_of_label(const ModelConfig& config, const std::string& label);

/// The number behind a name of a version; nothing where there is no such label and the name is no
/// number.
std::optional<std::int64_t> number_of_name(const ModelConfig& config, std::string_view name);

/// The shares, which sum to 1, of the versions that answer requests without a version; empty for a
/// model without weights.
std::vector<std::pair<std::int64_t, double>> shares_of(const ModelConfig& config,
                                                       const Answers& answers);

}  // namespace muster::serving
