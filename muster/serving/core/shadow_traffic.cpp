#include "muster/serving/core/shadow_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/serving/codec/predict_request.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;

constexpr std::size_t kMostShadowText = 2000;

bool are_close(double left, double right, double tolerance) {
  if (std::isnan(left) || std::isnan(right)) return std::isnan(left) && std::isnan(right);
  if (left == right) return true;
  const double scale = std::max({1.0, std::abs(left), std::abs(right)});
  return std::abs(left - right) <= tolerance * scale;
}

template <typename T>
std::string number_difference(const std::string& name, const TensorValue& answer,
                              const TensorValue& shadow, double tolerance) {
  const auto left = answer.values<T>();
  const auto right = shadow.values<T>();
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!are_close(left[i], right[i], tolerance)) {
      return fmt::format("{}[{}] is {}, and in the shadow {}", name, i, left[i], right[i]);
    }
  }
  return "";
}

std::string tensor_difference(const std::string& name, const TensorValue& answer,
                              const TensorValue& shadow, double tolerance) {
  if (answer.dtype != shadow.dtype || answer.shape != shadow.shape) {
    return fmt::format("{} has another type or shape in the shadow", name);
  }
  if (answer == shadow) return "";
  if (answer.dtype == DataType::kFloat) {
    return number_difference<float>(name, answer, shadow, tolerance);
  }
  if (answer.dtype == DataType::kDouble) {
    return number_difference<double>(name, answer, shadow, tolerance);
  }
  return fmt::format("{} differs", name);
}

// As a request of REST has it; what is no text is said to be so.
std::string shown_inputs(const Tensors& inputs) {
  std::string text = "{";
  for (const auto& [name, tensor] : inputs) {
    if (text.size() > 1) text += ", ";
    text += json_string_lossy(name) + ": ";
    try {
      text += tensor_json(tensor, /*as_bytes=*/false);
    } catch (const Error&) {
      text += "\"bytes\"";
    }
    if (text.size() > kMostShadowText) break;
  }
  text += "}";
  if (text.size() > kMostShadowText) text = text.substr(0, kMostShadowText) + "...";
  return text;
}

}  // namespace

ShadowRule ShadowRule::parse(std::string_view text) {
  const auto equals = text.find('=');
  const auto colon = text.rfind(':');
  const auto refuse = [&]() -> ShadowRule {
    throw InvalidArgument(
        "shadow traffic must be MODEL=VERSION:SHARE or MODEL=OTHER/VERSION:SHARE, with a share "
        "from 0 to 1: {}",
        text);
  };
  if (equals == text.npos || colon == text.npos || equals == 0 || colon <= equals + 1) {
    return refuse();
  }
  ShadowRule rule{.model = std::string(text.substr(0, equals))};
  const std::string_view share = text.substr(colon + 1);
  const auto read = std::from_chars(share.data(), share.data() + share.size(), rule.share);
  if (read.ec != std::errc{} || read.ptr != share.data() + share.size() ||
      !(rule.share >= 0 && rule.share <= 1)) {
    return refuse();
  }
  std::string_view version = text.substr(equals + 1, colon - equals - 1);
  rule.shadow_model = rule.model;
  if (const auto slash = version.find('/'); slash != version.npos) {
    rule.shadow_model = std::string(version.substr(0, slash));
    version.remove_prefix(slash + 1);
  }
  if (rule.shadow_model.empty() || version.empty()) return refuse();
  std::int64_t number = 0;
  const auto digits = std::from_chars(version.data(), version.data() + version.size(), number);
  if (digits.ec == std::errc{} && digits.ptr == version.data() + version.size()) {
    rule.shadow.number = number;
  } else {
    rule.shadow.label = std::string(version);
  }
  return rule;
}

std::string difference_of(const Tensors& answer, const Tensors& shadow, double tolerance) {
  for (const auto& [name, tensor] : answer) {
    const auto other = shadow.find(name);
    if (other == shadow.end()) return fmt::format("the shadow has no output {}", name);
    std::string found = tensor_difference(name, tensor, other->second, tolerance);
    if (!found.empty()) return found;
  }
  return "";
}

/// Lives until the last answer of a shadow has come.
struct ShadowTraffic::Impl {
  enum Result : std::size_t { kSame, kDifferent, kFailed, kDropped, kResults };
  using Counts = std::array<std::uint64_t, kResults>;
  static constexpr std::array<const char*, kResults> kNames{"same", "different", "failed",
                                                            "dropped"};

  Impl(ModelStore& of, ShadowOptions given) : store(of), options(std::move(given)) {}

  void count(const ShadowRule& rule, Result result) {
    const std::lock_guard lock(mutex);
    ++counts[{rule.model, fmt::format("{}/{}", rule.shadow_model,
                                      rule.shadow.number ? std::to_string(*rule.shadow.number)
                                                         : rule.shadow.label)}][result];
  }

  // Whether a difference is still to be logged in this minute.
  bool may_log() {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex);
    if (now - minute >= std::chrono::minutes(1)) {
      minute = now;
      logged = 0;
    }
    return logged++ < options.most_logged;
  }

  void compare(const ShadowRule& rule, const AnsweredRequest& request, const ModelVersion& shadow,
               const BatchAnswer& answer, const std::exception_ptr& failure) {
    const std::string difference =
        failure ? muster::describe(failure).message
                : difference_of(request.outputs, answer.outputs, options.tolerance);
    count(rule, failure ? kFailed : difference.empty() ? kSame : kDifferent);
    if (difference.empty() || !may_log()) return;
    log::warning("shadow answers {} model={} version={} shadow={}/{} signature={} request={}: {}",
                 failure ? "fail" : "differ", request.version->model(), request.version->number(),
                 shadow.model(), shadow.number(), request.signature, shown_inputs(request.inputs),
                 difference);
  }

  bool is_drawn(double share) {
    const std::lock_guard lock(mutex);
    return std::uniform_real_distribution<double>(0, 1)(random) < share;
  }

  bool take_off() {
    const std::lock_guard lock(mutex);
    if (in_flight >= options.most_in_flight) return false;
    ++in_flight;
    return true;
  }
  void land() {
    const std::lock_guard lock(mutex);
    --in_flight;
    landed.notify_all();
  }

  ModelStore& store;
  const ShadowOptions options;
  mutable std::mutex mutex{};
  std::condition_variable landed{};
  std::int64_t in_flight = 0;
  std::mt19937_64 random{std::random_device()()};
  std::map<std::pair<std::string, std::string>, Counts> counts{};
  std::chrono::steady_clock::time_point minute{};
  std::int64_t logged = 0;
};

ShadowTraffic::ShadowTraffic(ModelStore& store, ShadowOptions options)
    : impl_(std::make_shared<Impl>(store, std::move(options))) {}
ShadowTraffic::~ShadowTraffic() = default;

bool ShadowTraffic::wants(const ModelVersion& version, std::string_view /*signature*/) {
  return std::ranges::any_of(impl_->options.rules, [&](const ShadowRule& rule) {
    return rule.model == version.model() && rule.share > 0;
  });
}

/// A request that is computed again.
struct ShadowTraffic::Flight {
  std::shared_ptr<Impl> impl;
  ShadowRule rule;
  std::shared_ptr<const AnsweredRequest> request;
  ModelVersionPtr shadow;

  // Once. Versions are let go before close() returns.
  void land(const BatchAnswer& answer, const std::exception_ptr& failure) {
    impl->compare(rule, *request, *shadow, answer, failure);
    request.reset();
    shadow.reset();
    impl->land();
  }
};

void ShadowTraffic::see(std::shared_ptr<const AnsweredRequest> request) noexcept {
  for (const ShadowRule& rule : impl_->options.rules) {
    if (rule.model != request->version->model() || !impl_->is_drawn(rule.share)) continue;
    ModelVersionPtr shadow;
    try {
      shadow = impl_->store.find(rule.shadow_model, rule.shadow);
    } catch (const Error&) {
      impl_->count(rule, Impl::kFailed);
      continue;
    }
    // It has answered itself.
    if (shadow == request->version) continue;
    if (!impl_->take_off()) {
      impl_->count(rule, Impl::kDropped);
      continue;
    }
    const auto flight = std::make_shared<Flight>(Flight{impl_, rule, request, shadow});
    try {
      // With the lowest priority: other requests go first.
      shadow->start(request->signature, request->inputs, Deadline::after(impl_->options.timeout),
                    impl_->options.priority,
                    [flight](const BatchAnswer& answer, const std::exception_ptr& failure) {
                      flight->land(answer, failure);
                    });
    } catch (const Error&) {
      flight->land({}, std::current_exception());
    }
  }
}

void ShadowTraffic::close() {
  std::unique_lock lock(impl_->mutex);
  impl_->landed.wait(lock, [&] { return impl_->in_flight == 0; });
}

std::vector<Gauge> ShadowTraffic::gauges() const {
  Gauge requests{.name = "muster_shadow_requests_total",
                 .help = "Requests that a shadow computed again, by what came of it.",
                 .type = "counter"};
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [who, counts] : impl_->counts) {
    for (std::size_t result = 0; result < counts.size(); ++result) {
      requests.values.emplace_back(
          fmt::format("model=\"{}\",shadow=\"{}\",result=\"{}\"", label_text(who.first),
                      label_text(who.second), Impl::kNames[result]),
          static_cast<double>(counts[result]));
    }
  }
  return {std::move(requests)};
}

}  // namespace muster::serving
