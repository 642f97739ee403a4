#include "muster/serving/load/load_report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "muster/base/printable.h"

namespace muster::serving {
namespace {

using nlohmann::ordered_json;

bool is_open_loop(const LoadReport& report) {
  return !report.steps.empty() && report.steps.front().rate.has_value();
}

double milliseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

double share(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

// Four digits that count: 0.0312, 3.125, 3125.
std::string latency_text(std::int64_t nanoseconds) {
  const double value = milliseconds(nanoseconds);
  return value >= 1000  ? fmt::format("{:.0f}", value)
         : value >= 100 ? fmt::format("{:.1f}", value)
         : value >= 10  ? fmt::format("{:.2f}", value)
                        : fmt::format("{:.3f}", value);
}

std::size_t first_width(const LoadReport& report) {
  std::size_t width = 12;
  if (report.models.size() < 2) return width;
  for (const std::string& model : report.models) width = std::max(width, model.size());
  return width;
}

std::string row_of(std::size_t width, const std::string& first, const std::string& answers,
                   const ModelMeasurements& model) {
  std::string row = fmt::format("{:>{}} {:>10} {:>11} {:>8.3g} %", first, width, model.requests,
                                answers, 100 * share(model.failed, model.requests));
  for (const double quantile : {0.5, 0.9, 0.99, 0.999, 1.0}) {
    row += fmt::format(" {:>9}", latency_text(model.latency.quantile(quantile)));
  }
  return row + "\n";
}

std::string heading(const LoadReport& report) {
  const bool is_open = is_open_loop(report);
  const std::size_t concurrency = report.steps.empty() ? 0 : report.steps.front().concurrency;
  std::string text =
      fmt::format("{} at {}: {}\n", fmt::join(report.models, ", "), report.server, report.protocol);
  if (is_open) {
    text += fmt::format(
        "open loop: {} arrivals, at most {} in flight; latencies count from the time at which a "
        "request was due\n",
        report.arrivals == ArrivalPattern::kPoisson ? "Poisson" : "constant", concurrency);
  } else {
    text +=
        "closed loop: a request is sent when another is answered, so a server that stalls is asked "
        "less; its users' latencies are those of an open loop (--rate)\n";
  }
  return text + fmt::format("\n{:>{}} {:>10} {:>11} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
                            is_open ? "rate/s" : "in flight", first_width(report), "requests",
                            "answers/s", "errors", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms",
                            "max ms");
}

std::string rows_of(const LoadReport& report, const LoadStep& step) {
  std::string text =
      row_of(first_width(report),
             step.rate ? fmt::format("{:.5g}", *step.rate) : std::to_string(step.concurrency),
             fmt::format("{:.1f}", step.measured.answers_per_second()), step.measured.total());
  if (report.models.size() < 2) return text;
  for (std::size_t i = 0; i < step.measured.models.size(); ++i) {
    text += row_of(first_width(report), report.models[i], "", step.measured.models[i]);
  }
  return text;
}

std::string errors_of(const LoadReport& report) {
  ModelMeasurements all;
  // Steps come one after another, so the first message of a kind is that of the first step with it.
  for (const LoadStep& step : report.steps) {
    for (const auto& [kind, error] : step.measured.total().errors) {
      LoadError& own = all.errors[kind];
      if (own.count == 0) own.message = error.message;
      own.count += error.count;
    }
  }
  if (all.errors.empty()) return "";
  std::string text = "\nerrors, with the first message of each kind\n";
  for (const auto& [kind, error] : all.errors) {
    text += fmt::format("{:>12}  {}: {}\n", error.count, printable_line(kind),
                        printable_line(error.message));
  }
  return text;
}

// The sender's part of the latency is worth a word where it is a part that counts: of the step in
// which it is largest.
std::string delay_note(const LoadReport& report) {
  const LoadStep* worst = nullptr;
  std::int64_t most = 0;
  for (const LoadStep& step : report.steps) {
    const std::int64_t delay = step.measured.send_delay.quantile(0.99);
    const std::int64_t latency = step.measured.total().latency.quantile(0.99);
    if (!step.rate || delay < 1'000'000 || delay < latency / 4 || delay <= most) continue;
    worst = &step;
    most = delay;
  }
  if (worst == nullptr) return "";
  return fmt::format(
      "\nat {:.5g}/s, p99 of the time from when a request was due to when it was sent is {} ms: {} "
      "in "
      "flight waited for the server (--concurrency), or this program did not get its processor "
      "(--threads)\n",
      *worst->rate, latency_text(most), worst->concurrency);
}

std::string knee_text(const LoadReport& report) {
  if (!report.searched_knee) return "";
  if (!report.knee) return "\nno knee: the bounds were passed at every rate\n";
  return fmt::format("\nknee: {:.5g} requests/s is the highest rate within the bounds\n",
                     *report.knee);
}

ordered_json json_of(const LatencyHistogram& latency) {
  return {{"mean", latency.mean() / 1e6},
          {"min", milliseconds(latency.min())},
          {"p50", milliseconds(latency.quantile(0.5))},
          {"p90", milliseconds(latency.quantile(0.9))},
          {"p95", milliseconds(latency.quantile(0.95))},
          {"p99", milliseconds(latency.quantile(0.99))},
          {"p99.9", milliseconds(latency.quantile(0.999))},
          {"max", milliseconds(latency.max())}};
}

ordered_json json_of(const ModelMeasurements& model) {
  ordered_json errors = ordered_json::array();
  for (const auto& [kind, error] : model.errors) {
    errors.push_back({{"kind", kind}, {"count", error.count}, {"message", error.message}});
  }
  return {{"requests", model.requests},
          {"failed", model.failed},
          {"latency_ms", json_of(model.latency)},
          {"errors", errors}};
}

ordered_json json_of(const LoadReport& report, const LoadStep& step) {
  ordered_json written;
  if (step.rate) written["rate"] = *step.rate;
  written["concurrency"] = step.concurrency;
  written["seconds"] = step.measured.seconds;
  written["sent"] = step.measured.sent;
  written["answers_per_second"] = step.measured.answers_per_second();
  written.update(json_of(step.measured.total()));
  written["send_delay_ms"] = json_of(step.measured.send_delay);
  if (step.measured.was_stopped) written["unfinished"] = step.measured.unfinished;
  if (report.bounds) {
    const auto passed = passed_bound(outcome_of(step), *report.bounds);
    written["within_bounds"] = !passed.has_value();
    if (passed) written["passed_bound"] = *passed;
  }
  ordered_json models = ordered_json::object();
  for (std::size_t i = 0; i < step.measured.models.size(); ++i) {
    models[report.models[i]] = json_of(step.measured.models[i]);
  }
  written["models"] = models;
  return written;
}

}  // namespace

RateOutcome outcome_of(const LoadStep& step) {
  const ModelMeasurements total = step.measured.total();
  const double answers = step.measured.answers_per_second();
  return {.rate = step.rate.value_or(answers),
          .p99_seconds = static_cast<double>(total.latency.quantile(0.99)) / 1e9,
          .error_share = share(total.failed, total.requests),
          .requests = static_cast<double>(total.requests),
          .answered = static_cast<double>(step.measured.answered + total.failed)};
}

std::string load_table(const LoadReport& report) {
  std::string text = heading(report);
  for (const LoadStep& step : report.steps) text += rows_of(report, step);
  text += delay_note(report) + errors_of(report) + knee_text(report);
  if (!report.steps.empty() && report.steps.back().measured.was_stopped) {
    text += fmt::format("\nstopped: {} requests in flight are not counted\n",
                        report.steps.back().measured.unfinished);
  }
  return text;
}

std::string load_json(const LoadReport& report) {
  ordered_json written{{"server", report.server},
                       {"protocol", report.protocol},
                       {"models", report.models},
                       {"loop", is_open_loop(report) ? "open" : "closed"}};
  if (is_open_loop(report)) {
    written["arrivals"] = report.arrivals == ArrivalPattern::kPoisson ? "poisson" : "constant";
  }
  written["threads"] = report.threads;
  ordered_json steps = ordered_json::array();
  for (const LoadStep& step : report.steps) steps.push_back(json_of(report, step));
  written["steps"] = steps;
  if (report.searched_knee)
    written["knee"] = report.knee ? ordered_json(*report.knee) : ordered_json();
  return written.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

LatencyPlot load_plot(const LoadReport& report) {
  LatencyPlot plot{.title = fmt::format("{} at {}, {}", fmt::join(report.models, ", "),
                                        report.server, report.protocol),
                   .rates = is_open_loop(report) ? "requests/s" : "answers/s",
                   .knee = report.knee};
  if (report.bounds && std::isfinite(report.bounds->most_p99_seconds)) {
    plot.most_p99_seconds = report.bounds->most_p99_seconds;
  }
  for (const LoadStep& step : report.steps) {
    const ModelMeasurements total = step.measured.total();
    const auto seconds = [&](double quantile) {
      return static_cast<double>(total.latency.quantile(quantile)) / 1e9;
    };
    plot.points.push_back(
        {.rate = outcome_of(step).rate,
         .p50_seconds = seconds(0.5),
         .p90_seconds = seconds(0.9),
         .p99_seconds = seconds(0.99),
         .p999_seconds = seconds(0.999),
         .is_bad = report.bounds ? passed_bound(outcome_of(step), *report.bounds).has_value()
                                 : total.failed > 0});
  }
  return plot;
}

}  // namespace muster::serving
