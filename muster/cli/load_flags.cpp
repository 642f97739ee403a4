#include "muster/cli/load_flags.h"

#include "muster/cli/command.h"
#include "muster/cli/repeatable.h"

namespace muster::cli {
namespace {

// CLI11 takes the text "-1" for a number without a sign, and an empty list for none.
std::string whole_number(const std::string& text) {
  const bool is_one = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return is_one ? "" : "must be a whole number: " + text;
}

std::string some_text(const std::string& text) { return text.empty() ? "must not be empty" : ""; }

void add_target_flags(CLI::App& command, LoadFlags& flags) {
  command
      .add_option("models", flags.models,
                  "Models to ask: NAME or NAME/VERSION, with =WEIGHT behind it where several share "
                  "the requests unequally")
      ->required();
  command.add_option("--server", flags.server,
                     "HOST:PORT of the server (localhost:8501, over gRPC localhost:8500); a token "
                     "for it is taken from MUSTER_TOKEN");
  command
      .add_option("--protocol", flags.protocol,
                  "rest, grpc (TensorFlow Serving's), oip, oip-grpc (Open Inference Protocol)")
      ->check(CLI::IsMember({"rest", "grpc", "oip", "oip-grpc"}))
      ->capture_default_str();
  command.add_option("--signature-name", flags.signature_name, "serving_default without it");
}

void add_loop_flags(CLI::App& command, LoadFlags& flags) {
  command
      .add_option("--rate", flags.rate,
                  "Open loop: requests per second, sent whether others are answered or not; "
                  "several with commas between them are measured one after another")
      ->check(some_text);
  command
      .add_option("--concurrency", flags.concurrency,
                  "Requests in flight. Closed loop, without --rate: always so many (16); several "
                  "with commas are measured one after another. Open loop: at most (256)")
      ->check(some_text);
  command
      .add_option("--arrivals", flags.arrivals,
                  "How requests of an open loop arrive: poisson, as from many clients, or constant")
      ->check(CLI::IsMember({"poisson", "constant"}))
      ->capture_default_str();
  command.add_option("--seconds", flags.seconds, "Measured time of each rate")
      ->capture_default_str();
  command.add_option("--warm-up-seconds", flags.warm_up_seconds,
                     "Before it, not measured (1; 0 with --requests)");
  command
      .add_option("--deadline-seconds", flags.deadline_seconds,
                  "A request without an answer by then has failed")
      ->capture_default_str();
  command.add_option("--requests", flags.requests, "Ends after so many, if not by time")
      ->check(whole_number);
  command
      .add_option("--connections", flags.connections,
                  "Over gRPC (one for 16 requests in flight); REST has one for each request")
      ->check(whole_number);
  command.add_option("--threads", flags.threads, "Of this program")
      ->check(whole_number)
      ->capture_default_str();
}

void add_request_flags(CLI::App& command, LoadFlags& flags) {
  command.add_option("--rows", flags.rows, "Rows, or lines of --instances, of a request")
      ->check(whole_number)
      ->capture_default_str();
  command
      .add_option("--distinct", flags.distinct,
                  "Different requests, of random values that fit the model's signature")
      ->check(whole_number)
      ->capture_default_str();
  command.add_option("--seed", flags.seed, "Of values, arrivals and choices of models")
      ->check(whole_number)
      ->capture_default_str();
  repeatable(command.add_option("--instances", flags.instances,
                                "[MODEL=]FILE of instances to send, one JSON value a line"));
  repeatable(command.add_option("--recorded", flags.recorded,
                                "[MODEL=]FILE of recorded requests to send, TFRecords of "
                                "TensorFlow Serving's PredictionLog; with --protocol grpc"));
}

void add_outcome_flags(CLI::App& command, LoadFlags& flags) {
  command.add_flag("--find-knee", flags.find_knee,
                   "Raise the rate, from --rate or 100, until a bound is passed, and find the "
                   "highest that is within the bounds");
  command.add_option("--max-rate", flags.max_rate, "The highest rate that --find-knee tries")
      ->capture_default_str();
  command.add_option("--max-p99-ms", flags.max_p99_ms,
                     "Bound of the 99th percentile (100 with --find-knee)");
  command.add_option("--max-error-percent", flags.max_error_percent,
                     "Bound of the share of failed requests (0.1 with --find-knee)");
  command.add_option("--plot", flags.plot, "FILE.svg to draw latency over rate in");
  add_json_flag(command, flags.as_json, "One JSON object");
}

}  // namespace

void add_load_flags(CLI::App& command, LoadFlags& flags) {
  add_target_flags(command, flags);
  add_loop_flags(command, flags);
  add_request_flags(command, flags);
  add_outcome_flags(command, flags);
  command.footer(
      "Exit status: 0 measured, 1 no answer, or a bound was passed, 2 misused, 75 no server "
      "answers, 130 stopped by Ctrl-C, with what was measured so far.");
}

}  // namespace muster::cli
