#include "muster/serving/core/version_rule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "muster/base/error.h"
#include "muster/base/fingerprint.h"

namespace muster::serving {
namespace {

using Weights = std::vector<std::pair<std::int64_t, double>>;

std::optional<std::int64_t> number_in(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number < 0) {
    return std::nullopt;
  }
  return number;
}

// The weights of versions that answer. Two names may be of one version.
Weights answering_weights(const ModelConfig& config, const Answers& answers) {
  Weights weights;
  weights.reserve(config.weights.size());
  for (const auto& [name, weight] : config.weights) {
    const auto number = number_of_name(config, name);
    if (!number || weight <= 0 || !answers(*number)) continue;
    const auto same = std::ranges::find(weights, *number, &Weights::value_type::first);
    if (same == weights.end()) {
      weights.emplace_back(*number, weight);
    } else {
      same->second += weight;
    }
  }
  return weights;
}

// A number above 0 and below 1 that depends on all bits of both.
double uniform(std::uint64_t ticket, std::int64_t number) {
  const std::uint64_t mixed = concatenate_fingerprints(ticket, static_cast<std::uint64_t>(number));
  return (static_cast<double>(mixed >> 11) + 0.5) * 0x1p-53;
}

// Weighted rendezvous hashing: each version draws an arrival time at the rate of its weight, and
// the first to arrive answers. The times of others do not change with the weight of one.
std::int64_t first_to_arrive(const Weights& weights, std::uint64_t ticket) {
  const auto time = [&](const Weights::value_type& row) {
    return -std::log(uniform(ticket, row.first)) / row.second;
  };
  return std::ranges::min_element(weights, {}, time)->first;
}

std::uint64_t ticket_of(std::string_view model, std::string_view key) {
  return concatenate_fingerprints(fingerprint64(model), fingerprint64(key));
}

}  // namespace

std::int64_t number_of_label(const ModelConfig& config, const std::string& label) {
  const auto number = config.labels.find(label);
  if (number != config.labels.end()) return number->second;
  throw InvalidArgument("Unrecognized servable version label: {}", label);
}

std::optional<std::int64_t> number_of_name(const ModelConfig& config, std::string_view name) {
  const auto label = config.labels.find(name);
  return label == config.labels.end() ? number_in(name) : label->second;
}

std::vector<std::pair<std::int64_t, double>> shares_of(const ModelConfig& config,
                                                       const Answers& answers) {
  Weights shares = answering_weights(config, answers);
  double sum = 0;
  for (const auto& row : shares) sum += row.second;
  for (auto& row : shares) row.second /= sum;
  std::ranges::sort(shares);
  return shares;
}

std::optional<std::int64_t> decide_version(const ModelConfig& config, const VersionChoice& choice,
                                           const Answers& answers,
                                           std::optional<std::uint64_t> draw) {
  if (!choice.label.empty()) return number_of_label(config, choice.label);
  if (choice.number) return choice.number;
  if (!choice.name.empty()) {
    const auto number = number_of_name(config, choice.name);
    return number ? *number : number_of_label(config, choice.name);
  }
  if (config.weights.empty()) return config.default_version;
  const Weights weights = answering_weights(config, answers);
  if (weights.empty()) return config.default_version;
  if (!choice.key.empty()) draw = ticket_of(config.name, choice.key);
  if (draw) return first_to_arrive(weights, *draw);
  return std::ranges::max_element(weights, {}, &Weights::value_type::second)->first;
}

}  // namespace muster::serving
