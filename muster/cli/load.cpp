// `muster load`: puts a server of models under load, and measures its latencies.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/base/wait.h"
#include "muster/cli/command.h"
#include "muster/cli/load_flags.h"
#include "muster/cli/words.h"
#include "muster/serving/load/call_server.h"
#include "muster/serving/load/load_report.h"
#include "muster/serving/load/load_requests.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kMostLoadInstanceBytes = std::uint64_t{1} << 30;
constexpr std::size_t kClosedLoopConcurrency = 16;
constexpr std::size_t kOpenLoopConcurrency = 256;
constexpr double kFirstRate = 100;
constexpr std::size_t kMostWeight = 1'000'000'000;
constexpr std::size_t kMostRows = 1 << 26;
constexpr double kLeastSeconds = 1e-9;
constexpr std::chrono::milliseconds kProgressPeriod{500};

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::llround(seconds * 1e9)));
}

template <typename T>
std::vector<T> numbers_of(const std::string& text, const char* flag, std::size_t most) {
  std::vector<T> numbers;
  if (text.empty()) return numbers;
  for (const std::string& word : split(text, ',')) {
    T number{};
    const char* const end = word.data() + word.size();
    const auto read = std::from_chars(word.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end || !(number > 0) ||
        !(static_cast<double>(number) <= static_cast<double>(most))) {
      throw UsageError("{} must be positive numbers up to {}, with commas between them: {}", flag,
                       most, text);
    }
    numbers.push_back(number);
  }
  return numbers;
}

/// NAME[/VERSION][=WEIGHT].
struct NamedModel {
  /// NAME[/VERSION].
  std::string label{};
  serving::ModelAddress address{};
  double weight = 1;
};

NamedModel parse_model(const std::string& word, const std::string& signature) {
  NamedModel model{.label = word.substr(0, word.rfind('='))};
  if (model.label.size() < word.size()) {
    const auto weights =
        numbers_of<double>(word.substr(model.label.size() + 1), "a model's weight", kMostWeight);
    if (weights.size() != 1) {
      throw UsageError("a model has one weight, MODEL=WEIGHT: {}", word);
    }
    model.weight = weights.front();
  }
  const auto slash = model.label.find('/');
  model.address.name = model.label.substr(0, slash);
  if (slash != std::string::npos) model.address.version = model.label.substr(slash + 1);
  model.address.signature = signature;
  if (model.address.name.empty() || (slash != std::string::npos && model.address.version.empty())) {
    throw UsageError("a model must be NAME, NAME/VERSION or either with =WEIGHT behind it: {}",
                     word);
  }
  return model;
}

/// The file that --instances or --recorded gives a model, FILE or MODEL=FILE; empty for none.
std::string file_for(const std::vector<std::string>& given, const NamedModel& model) {
  for (const std::string& one : given) {
    if (one.starts_with(model.label + "=")) return one.substr(model.label.size() + 1);
  }
  for (const std::string& one : given) {
    if (one.find('=') == std::string::npos) return one;
  }
  return "";
}

// A file that no model would send is a mistake, as are two for one model.
void check_files(const std::vector<std::string>& given, const std::vector<NamedModel>& models,
                 const char* flag) {
  std::set<std::string> owners;
  for (const std::string& one : given) {
    const bool is_for_all = one.find('=') == std::string::npos;
    const auto owner = std::ranges::find_if(
        models, [&](const NamedModel& model) { return one.starts_with(model.label + "="); });
    if (!is_for_all && owner == models.end()) {
      throw UsageError("{} must be FILE or MODEL=FILE with a model of this command: {}", flag, one);
    }
    if (!owners.insert(is_for_all ? "" : owner->label).second) {
      throw UsageError("{}: a second file for {}: {}", flag,
                       is_for_all ? "the same models" : owner->label, one);
    }
  }
}

void check_models(const LoadFlags& flags, const std::vector<NamedModel>& models) {
  std::set<std::string> labels;
  for (const NamedModel& model : models) {
    if (!labels.insert(model.label).second) {
      throw UsageError("model {} is named twice", model.label);
    }
  }
  check_files(flags.instances, models, "--instances");
  check_files(flags.recorded, models, "--recorded");
}

/// Everything that flags say, checked.
struct LoadCommand {
  LoadFlags flags{};
  serving::LoadProtocol protocol{};
  std::vector<NamedModel> models{};
  std::vector<double> rates{};
  std::vector<std::size_t> concurrencies{};
  serving::LoadPlan plan{};
  std::optional<serving::KneeBounds> bounds{};
};

serving::ServerAddress server_of(const LoadFlags& flags, serving::LoadProtocol protocol) {
  const std::string text = !flags.server.empty() ? flags.server
                           : is_grpc(protocol)   ? "localhost:8500"
                                                 : "localhost:8501";
  try {
    return serving::resolve_server(text);
  } catch (const InvalidArgument&) {
    throw UsageError("--server must be HOST:PORT: {}", text);
  }
}

/// The rate with which a search for the knee begins.
double first_rate(const LoadCommand& command) {
  return command.rates.empty() ? kFirstRate : command.rates.front();
}

std::optional<serving::KneeBounds> bounds_of(const LoadFlags& flags) {
  if (!flags.find_knee && !flags.max_p99_ms && !flags.max_error_percent) return std::nullopt;
  serving::KneeBounds bounds;
  if (!flags.find_knee) {
    bounds = {.most_p99_seconds = INFINITY, .most_error_share = 1, .least_answered_share = 0};
  }
  if (flags.max_p99_ms) bounds.most_p99_seconds = *flags.max_p99_ms / 1e3;
  if (flags.max_error_percent) bounds.most_error_share = *flags.max_error_percent / 100;
  return bounds;
}

void check_bounds(const LoadCommand& command) {
  const LoadFlags& flags = command.flags;
  if (flags.max_p99_ms && !(*flags.max_p99_ms > 0 && std::isfinite(*flags.max_p99_ms))) {
    throw UsageError("--max-p99-ms must be positive: {}", *flags.max_p99_ms);
  }
  if (flags.max_error_percent &&
      !(*flags.max_error_percent >= 0 && *flags.max_error_percent <= 100)) {
    throw UsageError("--max-error-percent must be from 0 to 100: {}", *flags.max_error_percent);
  }
  const double first = first_rate(command);
  if (flags.find_knee && !(flags.max_rate >= first && flags.max_rate <= serving::kMostRate)) {
    throw UsageError("--max-rate must be from {}, the first rate, to {:.0f}: {}", first,
                     serving::kMostRate, flags.max_rate);
  }
}

void check_plot(const std::string& plot) {
  if (plot.empty()) return;
  if (!plot.ends_with(".svg")) {
    throw UsageError("--plot writes an SVG file, so its name must end in .svg: {}", plot);
  }
  const Path folder = Path(plot).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    throw UsageError("--plot: there is no folder {}", folder.string());
  }
}

void check_flags(const LoadCommand& command) {
  const LoadFlags& flags = command.flags;
  if (!(flags.seconds >= kLeastSeconds) || !(flags.seconds <= 1e6)) {
    throw UsageError("--seconds must be from 1e-9 to 1e6: {}", flags.seconds);
  }
  if (!(flags.deadline_seconds >= kLeastSeconds) || !(flags.deadline_seconds <= 1e6)) {
    throw UsageError("--deadline-seconds must be from 1e-9 to 1e6: {}", flags.deadline_seconds);
  }
  const double warm_up = flags.warm_up_seconds.value_or(0);
  if (!(warm_up >= 0) || !(warm_up <= 1e6)) {
    throw UsageError("--warm-up-seconds must not be negative: {}", warm_up);
  }
  if (flags.rows == 0 || flags.rows > kMostRows) {
    throw UsageError("--rows must be from 1 to {}: {}", kMostRows, flags.rows);
  }
  if (flags.requests == 0U) throw UsageError("--requests must be positive: 0");
  if (flags.distinct == 0) throw UsageError("--distinct must be positive: 0");
  if (!command.rates.empty() && command.concurrencies.size() > 1) {
    throw UsageError("--concurrency: with --rate it is one number, the most in flight");
  }
  if (flags.find_knee && command.rates.size() > 1) {
    throw UsageError("--rate: with --find-knee it is one number, the first that is tried");
  }
  if (flags.find_knee && command.concurrencies.size() > 1) {
    throw UsageError("--concurrency: with --find-knee it is one number, the most in flight");
  }
  if (flags.find_knee && flags.requests) {
    throw UsageError("--requests: with --find-knee every rate lasts --seconds");
  }
  const bool is_open = flags.find_knee || !command.rates.empty();
  const std::size_t least =
      command.concurrencies.empty()
          ? (is_open ? kOpenLoopConcurrency : kClosedLoopConcurrency)
          : *std::min_element(command.concurrencies.begin(), command.concurrencies.end());
  if (flags.threads == 0 || flags.threads > least) {
    throw UsageError("--threads must be from 1 to {}, the requests in flight: {}", least,
                     flags.threads);
  }
  check_bounds(command);
  check_plot(flags.plot);
}

serving::LoadPlan plan_of(const LoadCommand& command) {
  const LoadFlags& flags = command.flags;
  const char* const token = std::getenv("MUSTER_TOKEN");
  return {.server = server_of(flags, command.protocol),
          .over_grpc = is_grpc(command.protocol),
          .token = token == nullptr ? "" : token,
          .arrivals = flags.arrivals == "constant" ? serving::ArrivalPattern::kConstant
                                                   : serving::ArrivalPattern::kPoisson,
          .connections = flags.connections,
          .threads = flags.threads,
          .warm_up = nanoseconds_of(flags.warm_up_seconds.value_or(flags.requests ? 0 : 1)),
          .duration = nanoseconds_of(flags.seconds),
          .deadline = nanoseconds_of(flags.deadline_seconds),
          .most_requests = flags.requests,
          .seed = flags.seed};
}

LoadCommand checked_command(const LoadFlags& flags) {
  LoadCommand command{.flags = flags,
                      .protocol = serving::load_protocol_named(flags.protocol),
                      .rates = numbers_of<double>(flags.rate, "--rate",
                                                  static_cast<std::size_t>(serving::kMostRate)),
                      .concurrencies = numbers_of<std::size_t>(flags.concurrency, "--concurrency",
                                                               serving::kMostConcurrency),
                      .bounds = bounds_of(flags)};
  for (const std::string& word : flags.models) {
    command.models.push_back(parse_model(word, flags.signature_name));
  }
  check_models(flags, command.models);
  check_flags(command);
  command.plan = plan_of(command);
  return command;
}

std::string ask(const LoadCommand& command, const serving::PreparedRequest& request) {
  return serving::call_server(command.plan.server, command.plan.over_grpc, command.plan.token,
                              request, Deadline::after(command.plan.deadline));
}

graph::SignatureDef signature_of(const LoadCommand& command, const NamedModel& model) {
  return serving::signature_from_metadata(
      command.protocol, model.address,
      ask(command, serving::metadata_request(command.protocol, model.address)));
}

std::vector<serving::PreparedRequest> requests_of(const LoadCommand& command,
                                                  const NamedModel& model) {
  const std::string recorded = file_for(command.flags.recorded, model);
  if (!recorded.empty()) {
    return serving::recorded_requests(command.protocol, model.address, recorded);
  }
  const graph::SignatureDef signature = signature_of(command, model);
  const std::string instances = file_for(command.flags.instances, model);
  if (!instances.empty()) {
    return serving::requests_of_lines(command.protocol, model.address, signature,
                                      read_file(instances, kMostLoadInstanceBytes),
                                      command.flags.rows);
  }
  return serving::generated_requests(command.protocol, model.address, signature,
                                     {.rows = static_cast<std::int64_t>(command.flags.rows),
                                      .distinct = command.flags.distinct,
                                      .seed = command.flags.seed});
}

// A load of requests that the server refuses would measure nothing, so each model is asked once.
std::vector<serving::LoadTarget> targets_of(const LoadCommand& command) {
  std::vector<serving::LoadTarget> targets;
  for (const NamedModel& model : command.models) {
    try {
      targets.push_back(
          {.model = model.label, .weight = model.weight, .requests = requests_of(command, model)});
      ask(command, targets.back().requests.front());
    } catch (Error& error) {
      error.add_context("before the load, model " + model.label);
      throw;
    }
  }
  return targets;
}

/// Runs steps until the load is stopped, and shows how far it is.
class LoadSteps {
 public:
  LoadSteps(const LoadCommand& command, const std::vector<serving::LoadTarget>& targets,
            std::stop_token stop)
      : command_(command), targets_(targets), stop_(std::move(stop)) {}

  bool is_stopped() const { return stop_.stop_requested(); }
  /// Whether no step is finished.
  bool is_empty() const { return steps_.empty(); }

  const serving::LoadStep& run(std::optional<double> rate, std::size_t concurrency) {
    serving::LoadPlan plan = command_.plan;
    plan.rate = rate;
    plan.concurrency = concurrency;
    const std::string label = rate ? fmt::format("{:.5g} requests/s", *rate)
                                   : fmt::format("{} requests in flight", concurrency);
    std::atomic<std::uint64_t> answered = 0;
    const std::jthread display([&](const std::stop_token& done) {
      while (log::shows_progress() && nap(done, kProgressPeriod)) {
        log::progress(fmt::format("{}: {} answers", label, answered.load()));
      }
      log::progress("");
    });
    steps_.push_back({.rate = rate,
                      .concurrency = concurrency,
                      .measured = serving::run_load(plan, targets_, stop_, answered)});
    return steps_.back();
  }

  std::vector<serving::LoadStep> take() { return std::move(steps_); }

 private:
  const LoadCommand& command_;
  const std::vector<serving::LoadTarget>& targets_;
  const std::stop_token stop_;
  std::vector<serving::LoadStep> steps_{};
};

std::size_t concurrency_of(const LoadCommand& command, std::size_t otherwise) {
  return command.concurrencies.empty() ? otherwise : command.concurrencies.front();
}

std::optional<double> find_knee(const LoadCommand& command, LoadSteps& steps) {
  serving::KneeSearch search({.first_rate = first_rate(command),
                              .most_rate = command.flags.max_rate,
                              .bounds = *command.bounds});
  while (!steps.is_stopped()) {
    const auto rate = search.next_rate();
    if (!rate) break;
    const serving::LoadStep& step = steps.run(rate, concurrency_of(command, kOpenLoopConcurrency));
    if (step.measured.was_stopped) break;
    const serving::RateOutcome outcome = outcome_of(step);
    const auto passed = passed_bound(outcome, *command.bounds);
    log::info("rate={:.5g} answers_per_second={:.1f} p99_ms={:.3f} {}", *rate,
              step.measured.answers_per_second(), 1e3 * outcome.p99_seconds,
              passed ? "too much: " + *passed : "within the bounds");
    search.add(outcome);
  }
  return search.knee();
}

void run_steps(const LoadCommand& command, LoadSteps& steps) {
  for (const double rate : command.rates) {
    if (steps.is_stopped()) return;
    steps.run(rate, concurrency_of(command, kOpenLoopConcurrency));
  }
  if (!command.rates.empty()) return;
  if (command.concurrencies.empty()) steps.run(std::nullopt, kClosedLoopConcurrency);
  for (const std::size_t concurrency : command.concurrencies) {
    if (steps.is_stopped()) return;
    steps.run(std::nullopt, concurrency);
  }
}

/// A report of the steps that were finished, and the error that ended them, if one did.
struct Measured {
  serving::LoadReport report{};
  std::exception_ptr failure{};
};

// Steps take minutes: an error in a later one does not take those before it away.
Measured measure(const LoadCommand& command, const std::vector<serving::LoadTarget>& targets,
                 const std::stop_token& stop) {
  LoadSteps steps(command, targets, stop);
  Measured out;
  serving::LoadReport& report = out.report;
  report = {.protocol = command.flags.protocol,
            .server = command.plan.server.text,
            .arrivals = command.plan.arrivals,
            .threads = command.plan.threads,
            .bounds = command.bounds,
            .searched_knee = command.flags.find_knee};
  for (const serving::LoadTarget& target : targets) report.models.push_back(target.model);
  try {
    if (command.flags.find_knee) {
      report.knee = find_knee(command, steps);
    } else {
      run_steps(command, steps);
    }
  } catch (const Error&) {
    if (steps.is_empty()) throw;
    out.failure = std::current_exception();
    report.searched_knee = false;
  }
  report.steps = steps.take();
  return out;
}

void print_report(const LoadFlags& flags, const serving::LoadReport& report) {
  fmt::print("{}", flags.as_json ? load_json(report) : load_table(report));
  if (flags.plot.empty()) return;
  write_file_atomically(flags.plot, latency_svg(load_plot(report)));
}

// A load whose bounds are not kept has failed, so that a script may ask for them.
void check_outcome(const serving::LoadReport& report) {
  const auto has_answer = [](const serving::LoadStep& step) {
    const auto total = step.measured.total();
    return total.failed < total.requests;
  };
  const auto has_request = [](const serving::LoadStep& step) {
    return step.measured.total().requests > 0;
  };
  if (std::none_of(report.steps.begin(), report.steps.end(), has_request)) {
    throw FailedPrecondition("no request was due in the measured time: raise --rate or --seconds");
  }
  if (std::none_of(report.steps.begin(), report.steps.end(), has_answer)) {
    throw FailedPrecondition("no request was answered: see the errors above");
  }
  if (report.searched_knee) {
    if (!report.knee) throw FailedPrecondition("there is no rate within the bounds");
    return;
  }
  if (!report.bounds) return;
  for (const serving::LoadStep& step : report.steps) {
    const auto passed = passed_bound(outcome_of(step), *report.bounds);
    if (passed) throw FailedPrecondition("the bounds were passed: {}", *passed);
  }
}

void load_server(const LoadFlags& flags) {
  const LoadCommand command = checked_command(flags);
  const std::vector<serving::LoadTarget> targets = targets_of(command);
  std::stop_source stop;
  const StopSignals signals([&](int) { stop.request_stop(); });
  const Measured measured = measure(command, targets, stop.get_token());
  const serving::LoadReport& report = measured.report;
  print_report(flags, report);
  if (const int signal = StopSignals::received(); signal != 0) {
    throw Interrupted(signal, "stopped by signal {}; the table has what was measured by then",
                      signal);
  }
  if (measured.failure) std::rethrow_exception(measured.failure);
  check_outcome(report);
}

}  // namespace

void add_load(CLI::App& command) {
  const auto flags = std::make_shared<LoadFlags>();
  add_load_flags(command, *flags);
  command.callback([flags] { load_server(*flags); });
}

}  // namespace muster::cli
