// Cost of serving: the census model over gRPC and REST compared with echo servers on the same
// stacks, a request without model and network, parsing JSON, and startup.
#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <simdjson.h>
#include <sys/resource.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/echo_servers.h"
#include "benchmarks/report.h"
#include "muster/base/log.h"
#include "muster/base/thread_pool.h"
#include "muster/data/features/census_columns_internal.h"
#include "muster/data/records/csv.h"
#include "muster/data/records/synthetic_census.h"
#include "muster/export/export_saved_model.h"
#include "muster/saved_model/graph/small_models_internal.h"
#include "muster/serving/codec/predict_request.h"
#include "muster/serving/codec/predictions.h"
#include "muster/serving/core/version_folders.h"
#include "muster/serving/executable/executable_servable.h"
#include "muster/serving/http/http_server.h"
#include "muster/serving/protocols/grpc_server.h"
#include "muster/serving/protocols/rest_api.h"
#include "muster/serving/protocols/tensorflow/tensorflow_requests_internal.h"
#include "muster/testing/eventually.h"
#include "muster/testing/http_load.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/api.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;
using serving::Tensors;
using testing::HttpLoad;

constexpr const char* kPredict = "/tensorflow.serving.PredictionService/Predict";
constexpr const char* kPerson =
    R"({"age": 39, "workclass": "State-gov", "education": "Bachelors", "education_num": 13,
 "marital_status": "Never-married", "occupation": "Adm-clerical", "relationship": "Not-in-family",
 "race": "White", "gender": "Male", "capital_gain": 2174, "capital_loss": 0,
 "hours_per_week": 40, "native_country": "United-States"})";

std::chrono::milliseconds load_time() { return std::chrono::milliseconds(bench::sized(3000, 100)); }

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Path export_census(const Path& folder) {
  const auto columns = internal::census_columns();
  auto estimator = dnn_linear_combined_classifier({.linear_columns = columns.wide,
                                                   .dnn_columns = columns.deep,
                                                   .hidden_units = {100, 70, 48, 34}},
                                                  RunConfig{.model_dir = folder / "job"});
  const Batch batch =
      make_batch(internal::census_features(40), torch::randint(0, 2, {40, 1}).to(torch::kFloat));
  estimator.train([&](const InputContext&) { return from_vector<Batch>({batch}); });
  FeatureColumnList all = columns.wide;
  all.insert(all.end(), columns.deep.begin(), columns.deep.end());
  export_saved_model(estimator, folder / "census", json_serving_input(all));
  return folder / "census";
}

/// A model that is loaded, and answered for.
struct Served {
  serving::ModelStore store;
  serving::Service service;
  serving::RestApi api;

  Served(const Path& base, serving::LoadServable load)
      : store({.load = std::move(load)}), service(store, {}), api(service, {}) {
    service.configure({{.name = "census", .base_path = base}});
    store.wait_until_settled(Deadline::never());
    store.find("census");
  }
};

/// Answers with what was answered once, so that a request costs all but the model.
class Canned : public serving::Servable {
 public:
  explicit Canned(std::shared_ptr<const serving::Servable> model) : model_(std::move(model)) {}
  const serving::Signatures& signatures() const override { return model_->signatures(); }
  Tensors run(std::string_view signature, const Tensors& inputs) const override {
    const std::lock_guard lock(mutex_);
    if (answer_.empty()) answer_ = model_->run(signature, inputs);
    return answer_;
  }

 private:
  std::shared_ptr<const serving::Servable> model_;
  mutable std::mutex mutex_;
  mutable Tensors answer_;
};

serving::HttpRequest rest_request(std::string body) {
  return {.method = "POST", .target = "/v1/models/census:predict", .body = std::move(body)};
}

std::string one_person() { return fmt::format("{{\"instances\": [{}]}}", kPerson); }

std::string http_bytes(std::string_view model, const std::string& body) {
  return fmt::format(
      "POST /v1/models/{}:predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nContent-Length: {}\r\n\r\n{}",
      model, body.size(), body);
}

tensorflow::serving::PredictRequest grpc_request(const Served& served) {
  tensorflow::serving::PredictRequest request;
  request.mutable_model_spec()->set_name("census");
  const auto version = served.store.find("census");
  const auto& signature = *version->find_signature("serving_default");
  const auto inputs = serving::PredictRequest::from_json(one_person()).tensors(signature);
  for (const auto& [name, tensor] : inputs) {
    auto& proto = (*request.mutable_inputs())[name];
    proto.set_dtype(static_cast<muster::proto::DataType>(tensor.dtype));
    for (const auto size : tensor.shape) {
      proto.mutable_tensor_shape()->add_dim()->set_size(size);
    }
    if (tensor.dtype == graph::DataType::kString) {
      for (const auto& text : tensor.strings) proto.add_string_val(text);
    } else {
      proto.set_tensor_content(tensor.bytes);
    }
  }
  return request;
}

grpc::ByteBuffer buffer_of(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

struct Times {
  std::vector<double> seconds{};
  double lasted = 0;
  double p50() const { return seconds[seconds.size() / 2]; }
  double p99() const { return seconds[seconds.size() * 99 / 100]; }
  double rate() const { return static_cast<double>(seconds.size()) / lasted; }
};

/// So many calls at any time, each begun when another has ended, from one thread.
Times grpc_load(const std::string& address, const std::string& method, const std::string& bytes,
                std::size_t concurrency) {
  struct Call {
    grpc::ClientContext context{};
    grpc::ByteBuffer response{};
    grpc::Status status{};
    std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader{};
    Clock::time_point begin{};
  };
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const grpc::ByteBuffer request = buffer_of(bytes);
  const auto start = [&] {
    auto* const call = new Call;
    call->begin = Clock::now();
    call->reader = stub.PrepareUnaryCall(&call->context, method, request, &queue);
    call->reader->StartCall();
    call->reader->Finish(&call->response, &call->status, call);
  };
  Times times;
  const auto begin = Clock::now();
  const auto end = begin + load_time();
  std::size_t under_way = concurrency;
  for (std::size_t i = 0; i < concurrency; ++i) start();
  while (under_way > 0) {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    const std::unique_ptr<Call> call(static_cast<Call*>(tag));
    if (!call->status.ok()) {
      throw Unavailable("{}: {}", method, call->status.error_message());
    }
    times.seconds.push_back(seconds_since(call->begin));
    if (Clock::now() < end) {
      start();
    } else {
      --under_way;
    }
  }
  times.lasted = seconds_since(begin);
  std::ranges::sort(times.seconds);
  return times;
}

Times rest_load(const std::string& address, const std::string& body, std::size_t concurrency) {
  const auto result = testing::run(HttpLoad{.address = address,
                                            .request = http_bytes("census", body),
                                            .connections = concurrency,
                                            .time = load_time()});
  if (result.statuses.size() != 1 || result.seconds.empty()) {
    throw Unavailable("{}: not every answer is 200", address);
  }
  return {.seconds = result.seconds, .lasted = result.lasted};
}

constexpr const char* kEchoOnly = "--grpc-echo";

// Answers with these bytes until it is killed.
int serve_echo(const std::string& answer_file) {
  std::ifstream file(answer_file, std::ios::binary);
  const bench::GrpcEcho echo(std::string(std::istreambuf_iterator<char>(file), {}));
  fmt::print(stderr, "{}\n", echo.address());
  while (true) ::pause();
}

/// gRPC's echo in a process of its own, as a server is. Within one process, threads of gRPC's idle
/// servers take what comes for its clients, which then wait to be woken by them.
class EchoProcess {
 public:
  EchoProcess(const char* self, const std::string& answer)
      : program_(self, {kEchoOnly, write(answer)}) {
    const bool says_address =
        testing::eventually([&] { return program_.err().find('\n') != std::string::npos; });
    if (!says_address) throw Unavailable("the echo does not start: {}", program_.err());
    address_ = program_.err().substr(0, program_.err().find('\n'));
  }
  const std::string& address() const { return address_; }

 private:
  std::string write(const std::string& answer) const {
    const Path file = folder_ / "answer";
    std::ofstream(file, std::ios::binary) << answer;
    return file.string();
  }

  const testing::TempDir folder_{};
  testing::RunningProgram program_;
  std::string address_{};
};

/// `served` and `echo` in turns, so that a busy machine slows both.
template <typename Load>
void compare(bench::Report& report, const std::string& name, const Load& served, const Load& echo,
             double most, double aim) {
  const std::string one = fmt::format("census over {}, ", name);
  if (report.wants(one)) {
    std::map<std::string, std::vector<double>> values;
    for (int i = 0; i < bench::sized(5, 1); ++i) {
      const Times ours = served(1);
      const Times theirs = echo(1);
      values["p50"].push_back(ours.p50() / theirs.p50());
      values["p99"].push_back(ours.p99() / theirs.p99());
      values["p50 us"].push_back(1e6 * ours.p50());
      values["echo p50 us"].push_back(1e6 * theirs.p50());
      const Times many = served(64);
      const Times many_echo = echo(64);
      values["rate"].push_back(many.rate() / many_echo.rate());
      values["per second"].push_back(many.rate());
    }
    const auto middle = [&](const char* key) { return bench::median(values[key]); };
    report.add({.name = one + "p50", .value = middle("p50 us"), .unit = "us"});
    report.add({.name = one + "p50 of the echo", .value = middle("echo p50 us"), .unit = "us"});
    report.add({.name = fmt::format("{}echo's p50 over ours (at most {}, aim {})", one, most, aim),
                .value = 1 / middle("p50"),
                .unit = "times",
                .at_least = 1 / most,
                .aim = 1 / aim});
    report.add({.name = one + "echo's p99 over ours",
                .value = 1 / middle("p99"),
                .unit = "times",
                .at_least = 1 / most,
                .aim = 1 / aim});
    report.add({.name = one + "64 at a time", .value = middle("per second"), .unit = "requests/s"});
    report.add({.name = one + "64 at a time, over the echo's",
                .value = middle("rate"),
                .unit = "times",
                .at_least = 0.7,
                .aim = 0.9});
  }
}

void measure_servers(bench::Report& report, const char* self, Served& served) {
  if (!report.wants("census over gRPC, ") && !report.wants("census over REST, ")) return;
  const std::string body = one_person();
  const std::string answer = served.api.handle(rest_request(body)).body;
  const std::string bytes = grpc_request(served).SerializeAsString();
  const EchoProcess grpc_echo(self, serving::predict(served.service, bytes, {}, {}));
  const bench::BeastEcho beast_echo(answer, 2);
  serving::GrpcServer grpc(served.service, {.address = "127.0.0.1"});
  serving::HttpServer http(
      {.address = "127.0.0.1", .loop = served.service.loop()},
      [&](serving::HttpRequest one) { return served.api.handle(std::move(one)); },
      serving::RestApi::queue_of,
      [&](serving::HttpRequest& one, const std::shared_ptr<serving::HttpReply>& reply) {
        return served.api.start(one, reply);
      });
  using Load = std::function<Times(std::size_t)>;
  compare<Load>(
      report, "gRPC",
      [&](std::size_t n) {
        return grpc_load(fmt::format("127.0.0.1:{}", grpc.port()), kPredict, bytes, n);
      },
      [&](std::size_t n) {
        return grpc_load(grpc_echo.address(), bench::GrpcEcho::method(), bytes, n);
      },
      1.3, 0.8);
  compare<Load>(
      report, "REST",
      [&](std::size_t n) { return rest_load(fmt::format("127.0.0.1:{}", http.port()), body, n); },
      [&](std::size_t n) { return rest_load(beast_echo.address(), body, n); }, 1.5, 1.1);
}

// A limit of 20 us, as how often 20 us hold what it takes.
void add_cost(bench::Report& report, const std::string& name, double seconds) {
  report.add({.name = name, .value = 1e6 * seconds, .unit = "us"});
  report.add(
      {.name = "20 us over " + name, .value = 20e-6 / seconds, .unit = "times", .at_least = 1});
}

// All of it is done in the thread of the request, so that thread's time tells it on a machine that
// is busy too.
void measure_own_cost(bench::Report& report, const Path& census) {
  const std::string name = "own cost of a census request";
  const std::string of_model = "census model, one person";
  if (!report.wants(name) && !report.wants(of_model)) return;
  const auto load = serving::executable_loader({});
  Served served(census, [&](const Path& dir) { return std::make_shared<Canned>(load(dir)); });
  const std::string bytes = grpc_request(served).SerializeAsString();
  const std::string body = one_person();
  const auto version = served.store.find("census");
  const auto& signature = *version->find_signature("serving_default");
  const auto inputs = serving::PredictRequest::from_json(body).tensors(signature);
  const auto model = load(serving::versions_in(census).begin()->second);
  const Tensors outputs = model->run("serving_default", inputs);
  const auto cost = [&](const std::function<void()>& work) {
    return bench::least_thread_seconds(work, report.effort());
  };
  const auto add = [&](const std::string& what, double seconds) {
    report.add({.name = what, .value = 1e6 * seconds, .unit = "us"});
  };
  add_cost(report, name + ", gRPC",
           cost([&] { bench::keep(serving::predict(served.service, bytes, {}, {})); }));
  const std::string unknown = bytes + serving::kUnknownField;
  add(name + ", gRPC, by protobuf's messages",
      cost([&] { bench::keep(serving::predict(served.service, unknown, {}, {})); }));
  add_cost(report, name + ", REST",
           cost([&] { bench::keep(served.api.handle(rest_request(body))); }));
  add(name + ", its JSON alone",
      cost([&] { bench::keep(serving::PredictRequest::from_json(body).tensors(signature)); }));
  add(name + ", its answer as JSON alone",
      cost([&] { bench::keep(serving::predict_answer(outputs, true)); }));
  add(name + ", what the model that answers for it takes",
      cost([&] { bench::keep(Tensors(outputs)); }));
  add(of_model, cost([&] { bench::keep(model->run("serving_default", inputs)); }));
}

void measure_json(bench::Report& report) {
  const std::string name = "1 MB of JSON numbers, over simdjson's DOM";
  if (!report.wants(name)) return;
  std::string body = "{\"instances\": [";
  std::uint64_t state = 1;
  while (body.size() < 1'000'000) {
    body += body.back() == '[' ? "[" : ",[";
    for (int i = 0; i < 100; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      body += fmt::format("{}{:.6f}", i == 0 ? "" : ",", static_cast<double>(state >> 40) / 1e4);
    }
    body += "]";
  }
  body += "]}";
  graph::SignatureDef signature;
  signature.inputs["x"] = {.name = "x:0", .dtype = graph::DataType::kFloat, .shape = {-1, 100}};
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(body);
  const auto times = bench::median_pair(
      [&] { bench::keep(serving::PredictRequest::from_json(body).tensors(signature)); },
      [&] { bench::keep(parser.parse(padded).error()); }, report.effort());
  const auto speed = [&](double seconds) {
    return static_cast<double>(body.size()) / seconds / 1e6;
  };
  report.add({.name = name,
              .value = speed(times.work_seconds),
              .unit = "MB/s",
              .limit = speed(times.limit_seconds),
              .at_least = 0.5});
}

// Made-up people as JSON lines, each ended.
std::vector<std::string> census_lines(std::size_t count) {
  constexpr const char* kNames[] = {"age",
                                    "workclass",
                                    "",
                                    "education",
                                    "education_num",
                                    "marital_status",
                                    "occupation",
                                    "relationship",
                                    "race",
                                    "gender",
                                    "capital_gain",
                                    "capital_loss",
                                    "hours_per_week",
                                    "native_country"};
  std::vector<std::string> lines;
  for (const std::string& row : make_synthetic_census(count, 1).rows) {
    const auto fields = split_csv_row(row);
    std::string line;
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      if (*kNames[i] == '\0') continue;
      const bool is_number = fields[i].find_first_not_of("0123456789") == std::string::npos;
      line += fmt::format("{}\"{}\": {}{}{}", line.empty() ? "{" : ", ", kNames[i],
                          is_number ? "" : "\"", fields[i], is_number ? "" : "\"");
    }
    lines.push_back(line + "}\n");
  }
  return lines;
}

/// A batch prediction in one process, as a hand-written program would do it: the executor alone,
/// with inputs in memory and answers dropped, or all of it, from lines in memory to lines in
/// memory. On all processors, one thread each, in the batches of a worker.
class InProcess {
 public:
  InProcess(const Path& export_dir, const std::vector<std::string>& lines)
      : model_(executor::ExecutableModel::load(export_dir, {.signatures = {kSignature}})) {
    for (std::size_t i = 0; i < lines.size(); i += kBatch) {
      std::string body;
      for (std::size_t j = i; j < std::min(i + kBatch, lines.size()); ++j) {
        body += (body.empty() ? "" : ",") + lines[j];
      }
      bodies_.push_back("{\"instances\": [" + body + "]}");
    }
    for (const std::string& body : bodies_) {
      executor::Values values;
      for (const auto& [name, tensor] : parse(body)) {
        values.emplace(name, executor::to_value(tensor));
      }
      inputs_.push_back(std::move(values));
    }
  }

  void run_executor() const {
    on_all_processors([this](std::size_t i) { bench::keep(model_.run(kSignature, inputs_[i])); });
  }

  void run_whole() const {
    on_all_processors([this](std::size_t i) {
      executor::Values inputs;
      for (const auto& [name, tensor] : parse(bodies_[i])) {
        inputs.emplace(name, executor::to_value(tensor));
      }
      Tensors outputs;
      for (const auto& [name, value] : model_.run(kSignature, inputs)) {
        outputs.emplace(name, executor::to_tensor_value(value));
      }
      const serving::Predictions predictions(std::move(outputs));
      std::string lines;
      for (std::int64_t row = 0; row < predictions.size(); ++row) {
        lines += predictions.json(row) + "\n";
      }
      bench::keep(lines);
    });
  }

 private:
  static constexpr std::size_t kBatch = 64;
  static constexpr const char* kSignature = "serving_default";

  Tensors parse(const std::string& body) const {
    return serving::PredictRequest::from_json(body).tensors(
        model_.signatures().find(kSignature)->second);
  }

  void on_all_processors(const std::function<void(std::size_t batch)>& run) const {
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> threads;
    threads.reserve(ThreadPool::available_processors());
    for (std::size_t i = 0; i < ThreadPool::available_processors(); ++i) {
      threads.emplace_back([&] {
        at::set_num_threads(1);
        for (std::size_t batch; (batch = next++) < bodies_.size();) run(batch);
      });
    }
  }

  executor::ExecutableModel model_;
  std::vector<std::string> bodies_{};
  std::vector<executor::Values> inputs_{};
};

/// Times that work on so many rows took, run by run.
class RowCosts {
 public:
  explicit RowCosts(std::size_t rows) : rows_(static_cast<double>(rows)) {}

  template <typename Work>
  void add(Work&& work) {
    const auto begin = Clock::now();
    const double used = processor_seconds();
    work();
    seconds_.push_back(seconds_since(begin));
    processor_seconds_.push_back(processor_seconds() - used);
  }

  double rows_per_second() const { return rows_ / bench::median(seconds_); }
  /// Rate by processor time, which does not depend on other load of the machine.
  double rows_per_processor_second() const { return rows_ / bench::median(processor_seconds_); }

 private:
  // Processor time of this process and of the children that it has waited for, with theirs.
  static double processor_seconds() {
    double sum = 0;
    for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
      rusage used{};
      ::getrusage(who, &used);
      for (const timeval& time : {used.ru_utime, used.ru_stime}) {
        sum += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
      }
    }
    return sum;
  }

  double rows_;
  std::vector<double> seconds_{};
  std::vector<double> processor_seconds_{};
};

void measure_batch_predict(bench::Report& report, const Path& census) {
  const std::string name = "muster batch-predict of census rows";
  if (!report.wants(name)) return;
  const testing::TempDir folder;
  const auto lines = census_lines(bench::sized(1'000'000, 200));
  {
    std::ofstream file(folder / "people.json");
    for (const std::string& line : lines) file << line;
  }
  const InProcess in_process(serving::versions_in(census).begin()->second, lines);
  RowCosts job(lines.size());
  RowCosts whole(lines.size());
  RowCosts executor(lines.size());
  // In turns, so that a busy machine slows all.
  for (int i = 0; i < bench::sized(3, 1); ++i) {
    job.add([&] {
      const auto done = testing::run_program(
          MUSTER_PROGRAM,
          {"batch-predict", "--model-dir", census, "--input-paths", folder / "people.json",
           "--data-format", "json", "--output-path", folder / std::to_string(i)});
      if (done.status != 0) throw Unavailable("muster batch-predict: {}", done.err);
    });
    whole.add([&] { in_process.run_whole(); });
    executor.add([&] { in_process.run_executor(); });
  }
  const auto compare = [&](const char* with, const RowCosts& limit) {
    report.add({.name = fmt::format("{}, start included, over {}", name, with),
                .value = job.rows_per_second(),
                .unit = "rows/s",
                .limit = limit.rows_per_second(),
                .at_least = 0.8,
                .aim = 0.9});
    report.add({.name = fmt::format("{}, by time of processors, over {}", name, with),
                .value = job.rows_per_processor_second(),
                .unit = "rows/s",
                .limit = limit.rows_per_processor_second()});
  };
  compare("one process that parses, runs and formats", whole);
  compare("the executor alone", executor);
}

/// A server as a process of its own.
class ServerProcess {
 public:
  explicit ServerProcess(const std::vector<std::string>& flags)
      : program_(MUSTER_PROGRAM, arguments_with(flags)) {
    constexpr std::string_view kAt = "REST API at:127.0.0.1:";
    while (address_.empty()) {
      const std::string text = program_.err();
      const auto at = text.find(kAt);
      if (at != text.npos && text.find(" ...", at) != text.npos) {
        const auto port = at + kAt.size();
        address_ = "127.0.0.1:" + text.substr(port, text.find(' ', port) - port);
      } else if (seconds_since(begin_) > 60) {
        throw Unavailable("muster serve does not start: {}", text);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  const std::string& address() const { return address_; }
  double seconds_since_start() const { return seconds_since(begin_); }
  double megabytes() const {
    const std::string page = testing::read_bytes(fmt::format("/proc/{}/status", program_.pid()));
    return std::stod(page.substr(page.find("VmRSS:") + 6)) / 1024;
  }

 private:
  static std::vector<std::string> arguments_with(const std::vector<std::string>& flags) {
    std::vector<std::string> all{"serve", "--address",       "127.0.0.1", "--port",
                                 "auto",  "--rest-api-port", "auto"};
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  }

  const Clock::time_point begin_ = Clock::now();
  testing::RunningProgram program_;
  std::string address_{};
};

/// A start up to the first answer.
struct Started {
  double seconds = 0;
  double megabytes = 0;
};
Started start_server(const std::vector<std::string>& flags, const std::string& request) {
  const ServerProcess server(flags);
  testing::run(HttpLoad{
      .address = server.address(), .request = request, .time = std::chrono::milliseconds(1)});
  return {.seconds = server.seconds_since_start(), .megabytes = server.megabytes()};
}

constexpr const char* kLoadOnly = "--load-libtorch-and-end";

void measure_start(bench::Report& report, const char* self, const Path& census) {
  const std::string name = "start of muster serve to its first answer";
  if (!report.wants(name)) return;
  const testing::TempDir folder;
  std::filesystem::create_directories(folder / "none");
  std::vector<double> seconds;
  std::vector<double> loads;
  std::vector<double> more;
  for (int i = 0; i < bench::sized(5, 1); ++i) {
    const Started with = start_server({"--model-base-path", census, "--model-name", "census"},
                                      http_bytes("census", one_person()));
    const Started without =
        start_server({"--models-dir", folder / "none"}, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
    seconds.push_back(with.seconds);
    more.push_back(with.megabytes - without.megabytes);
    const auto begin = Clock::now();
    testing::run_program(self, {kLoadOnly});
    loads.push_back(seconds_since(begin));
  }
  report.add({.name = "1.5 s over " + name,
              .value = 1.5 / bench::median(seconds),
              .unit = "times",
              .at_least = 1});
  report.add({.name = name, .value = bench::median(seconds), .unit = "s"});
  report.add({.name = "start of a program that links libtorch",
              .value = bench::median(loads),
              .unit = "s"});
  report.add({.name = "64 MB over what a server with census takes more than an empty one",
              .value = 64 / bench::median(more),
              .unit = "times",
              .at_least = 1});
  report.add({.name = "memory of the census model", .value = bench::median(more), .unit = "MB"});
}

/// Ten times as many requests as a model answers.
struct Overload {
  testing::HttpLoadResult result;
  // Answers a second when there are no more than it answers; the mean of before and after, since
  // the speed of a machine that others use too changes meanwhile.
  double peak = 0;
  double megabytes = 0;
  // In the second behind it.
  bool refuses_nothing = false;
};

Overload overload(const Path& model) {
  const ServerProcess server({"--model-base-path", model, "--model-name", "busy",
                              "--enable-batching=false", "--rest-api-timeout-in-ms", "1000",
                              "--num-batch-threads", "1"});
  const auto load = [&](std::size_t connections, double rate, int seconds) {
    return testing::run(
        HttpLoad{.address = server.address(),
                 .request = http_bytes("busy", R"({"instances": [1]})"),
                 .connections = connections,
                 .rate = rate,
                 .time = std::chrono::milliseconds(bench::sized(1000, 20) * seconds)});
  };
  constexpr std::size_t kFew = 16;  // With fewer, it waits for them now and then.
  load(kFew, 0, 1);
  const double peak = load(kFew, 0, 10).goodput();
  const double before = server.megabytes();
  Overload over{.result = load(2000, 10 * peak, 60), .megabytes = server.megabytes() - before};
  over.refuses_nothing = load(kFew, 0, 1).statuses.size() == 1;
  over.peak = (peak + load(kFew, 0, 10).goodput()) / 2;
  return over;
}

void measure_overload(bench::Report& report) {
  const std::string name = "ten times overload, ";
  if (!report.wants(name)) return;
  const testing::TempDir folder;
  internal::write_busy_model(folder / "busy/1", 400);
  std::map<std::string, std::vector<double>> values;
  for (int i = 0; i < bench::sized(5, 1); ++i) {
    Overload over = overload(folder / "busy");
    testing::HttpLoadResult& result = over.result;
    const auto in_time = std::ranges::upper_bound(result.seconds, 1.0) - result.seconds.begin();
    const auto answered = static_cast<double>(result.seconds.size());
    values["ratio"].push_back(result.goodput() / over.peak);
    values["goodput"].push_back(result.goodput());
    values["late"].push_back(static_cast<double>(result.statuses[504]) / answered);
    values["in time"].push_back(static_cast<double>(in_time) / answered);
    values["p50"].push_back(1e3 * result.quantile(0.5));
    values["memory"].push_back(over.megabytes);
    values["calm"].push_back(over.refuses_nothing ? 1 : 0);
    log::warning("{:.0f}/s of a peak of {:.0f}/s: {:.2f}", result.goodput(), over.peak,
                 result.goodput() / over.peak);
  }
  const auto add = [&](const char* what, const char* key, const char* unit,
                       std::optional<double> at_least = {}) {
    report.add({.name = name + what,
                .value = bench::median(values[key]),
                .unit = unit,
                .at_least = at_least});
  };
  add("goodput over the peak", "ratio", "times", 0.9);
  add("goodput", "goodput", "requests/s");
  add("p50 of what is answered", "p50", "ms");
  add("answered within their second", "in time", "of answers");
  add("504s over answers", "late", "times");
  add("memory that it takes", "memory", "MB");
  add("nothing refused in the second behind it", "calm", "of 1", 1);
}

/// Processors that are divided among the batches at work, over all of them for each.
void measure_threads(bench::Report& report) {
  const std::string name = "threads of a batch, ";
  if (!report.wants(name)) return;
  const testing::TempDir folder;
  internal::write_busy_model(folder / "busy/1", 400);
  const auto server_with = [&](int threads) {
    return std::make_unique<ServerProcess>(std::vector<std::string>{
        "--model-base-path", folder / "busy", "--model-name", "busy", "--enable-batching=false",
        "--tensorflow-intra-op-parallelism", std::to_string(threads)});
  };
  const auto divided = server_with(0);
  const auto whole = server_with(static_cast<int>(ThreadPool::available_processors()));
  for (const std::size_t connections : {1, 4, 16, 64}) {
    const auto rate = [&](const ServerProcess& server) {
      return testing::run(HttpLoad{.address = server.address(),
                                   .request = http_bytes("busy", R"({"instances": [1]})"),
                                   .connections = connections,
                                   .time = std::chrono::milliseconds(bench::sized(1000, 20))})
          .goodput();
    };
    std::vector<double> rates;
    std::vector<double> ratios;
    for (int i = 0; i < bench::sized(9, 1); ++i) {
      rates.push_back(rate(*divided));
      ratios.push_back(rates.back() / rate(*whole));
    }
    const std::string row = fmt::format("{}{} at a time", name, connections);
    report.add({.name = row + ", over all threads for each",
                .value = bench::median(ratios),
                .unit = "times",
                .at_least = 0.9});
    report.add({.name = row, .value = bench::median(rates), .unit = "requests/s"});
  }
}

/// Latencies as the clients of one model see them.
struct Seen {
  double rate = 0;
  double p50_ms = 0;
  double p99_ms = 0;
};

Seen seen(const ServerProcess& server, std::string_view model, std::string_view body,
          std::size_t connections, std::chrono::milliseconds time) {
  const auto result = testing::run(HttpLoad{.address = server.address(),
                                            .request = http_bytes(model, std::string(body)),
                                            .connections = connections,
                                            .time = time});
  if (result.seconds.empty()) throw Unavailable("{}: no answer is 200", model);
  return {.rate = result.goodput(),
          .p50_ms = 1e3 * result.quantile(0.5),
          .p99_ms = 1e3 * result.quantile(0.99)};
}

/// A model of a few microseconds that is asked beside one of 0.3 s, with the server's own settings.
class Neighbours {
 public:
  explicit Neighbours(const Path& folder) : server_({"--model-config-file", write(folder)}) {
    slow_alone_ = slow(1, load_time());
  }

  Seen fast(std::chrono::milliseconds time) const {
    return seen(server_, "fast", R"({"instances": [1]})", 4, time);
  }
  Seen slow(std::size_t clients, std::chrono::milliseconds time) const {
    return seen(server_, "slow", R"({"inputs": [1]})", clients, time);
  }
  const Seen& slow_alone() const { return slow_alone_; }

 private:
  static std::string write(const Path& folder) {
    internal::write_adder(folder / "fast/1", 1);
    internal::write_slow_model(folder / "slow/1", bench::sized(24, 1));
    std::string list;
    for (const char* const name : {"fast", "slow"}) {
      list += fmt::format("config {{ name: '{}' base_path: '{}' model_platform: 'tensorflow' }}\n",
                          name, (folder / name).string());
    }
    std::ofstream(folder / "models.config") << "model_config_list {\n" << list << "}\n";
    return folder / "models.config";
  }

  ServerProcess server_;
  Seen slow_alone_{};
};

/// Throughput that a model in demand loses to a slow one beside it.
void measure_neighbours(bench::Report& report) {
  const std::string name = "a fast model beside a slow one, ";
  if (!report.wants(name)) return;
  const testing::TempDir folder;
  const Neighbours both(folder.path());
  const bool has_few = ThreadPool::available_processors() < 16;
  for (const std::size_t clients : {1, 8, 64}) {
    std::map<std::string, std::vector<double>> values;
    for (int i = 0; i < bench::sized(5, 1); ++i) {
      const Seen alone = both.fast(load_time());
      Seen slow;
      Seen beside;
      {
        std::jthread others([&] { slow = both.slow(clients, load_time() + load_time() / 2); });
        std::this_thread::sleep_for(load_time() / 4);  // They are all at work.
        beside = both.fast(load_time());
      }
      values["rate"].push_back(beside.rate / alone.rate);
      values["alone"].push_back(alone.rate);
      values["p50"].push_back(beside.p50_ms);
      values["p99"].push_back(beside.p99_ms);
      values["p99 ratio"].push_back(alone.p99_ms / beside.p99_ms);
      values["5 ms"].push_back(5 / beside.p99_ms);
      values["slow rate"].push_back(slow.rate);
      values["slow over alone"].push_back(slow.rate / both.slow_alone().rate);
      log::warning(
          "{} slow clients: fast {:.0f}/s of {:.0f}/s, p50 {:.2f} of {:.2f} ms, p99 {:.2f} of "
          "{:.2f} ms; slow {:.2f}/s of {:.2f}/s",
          clients, beside.rate, alone.rate, beside.p50_ms, alone.p50_ms, beside.p99_ms,
          alone.p99_ms, slow.rate, both.slow_alone().rate);
    }
    const std::string row = fmt::format("{}{} slow clients", name, clients);
    const auto add = [&](const char* what, const char* key, const char* unit,
                         std::optional<double> at_least = {}) {
      report.add({.name = row + what,
                  .value = bench::median(values[key]),
                  .unit = unit,
                  .at_least = at_least});
    };
    add(": rate over that alone", "rate", "times", has_few ? 0.4 : 0.5);
    add(": rate alone", "alone", "requests/s");
    add(": p50", "p50", "ms");
    add(": p99", "p99", "ms");
    if (has_few) {
      add(": 5 ms over p99", "5 ms", "times", 1);
    } else {
      add(": p99 alone over p99", "p99 ratio", "times", 1.0 / 3);
    }
    add(": the slow one's rate", "slow rate", "requests/s");
    add(": the slow one's rate over that of one client alone", "slow over alone", "times");
  }
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == muster::kLoadOnly) {
    muster::bench::keep(torch::ones({1}));
    return 0;
  }
  if (argc == 3 && std::string_view(argv[1]) == muster::kEchoOnly) {
    return muster::serve_echo(argv[2]);
  }
  muster::bench::Report report(argc, argv);
  muster::log::set_level(muster::log::Level::kWarning);
  const muster::testing::TempDir folder;
  const muster::Path census = muster::export_census(folder.path());
  {
    muster::Served served(census, muster::serving::executable_loader({}));
    muster::measure_servers(report, argv[0], served);
  }
  muster::measure_own_cost(report, census);
  muster::measure_json(report);
  muster::measure_batch_predict(report, census);
  muster::measure_start(report, argv[0], census);
  muster::measure_overload(report);
  muster::measure_threads(report);
  muster::measure_neighbours(report);
  return report.finish();
}
