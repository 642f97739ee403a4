// `muster serve` as a process, asked by clients that are not ours: curl, Debian's grpcio, a
// browser.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <regex>
#include <thread>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/saved_model/graph/small_models_internal.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/eventually.h"
#include "muster/testing/http_load.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/raw_tcp.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using internal::write_adder;
using internal::write_busy_model;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::operator+;
using testing::Outcome;
using ::testing::StartsWith;
using testing::TempDir;
using testing::Words;
using testing::write_bytes;

std::string predict_request(const std::string& model, const std::string& body) {
  return fmt::format(
      "POST /v1/models/{}:predict HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{}", model,
      body.size(), body);
}

/// A server that runs beside the test.
class Server {
 public:
  explicit Server(const Words& flags)
      : program_(MUSTER_PROGRAM,
                 Words{"serve", "--address", "127.0.0.1", "--port", "auto", "--rest-api-port",
                       "auto", "--file-system-poll-wait-seconds", "0.02"} +
                     flags) {
    const std::regex grpc("gRPC ModelServer at 127.0.0.1:([0-9]+)");
    const std::regex rest("REST API at:127.0.0.1:([0-9]+)");
    EXPECT_TRUE(testing::eventually([&] {
      const std::string text = program_.err();
      std::smatch match;
      if (std::regex_search(text, match, grpc)) grpc_ = "127.0.0.1:" + match[1].str();
      if (std::regex_search(text, match, rest)) rest_ = "127.0.0.1:" + match[1].str();
      return !rest_.empty() || program_.ended();
    })) << program_.err();
    EXPECT_NE(rest_, "") << program_.err();
  }

  const std::string& grpc() const { return grpc_; }
  const std::string& rest() const { return rest_; }
  std::string err() const { return program_.err(); }
  void send(int signal) const { program_.send(signal); }
  Outcome wait() { return program_.wait(); }

  // The output of curl: the body, and the status on a line of its own.
  std::string curl(const std::string& path, const Words& more = {},
                   const std::string& scheme = "http") const {
    return testing::run_program("/usr/bin/curl",
                                Words{"-sS", "--noproxy", "*", "--max-time", "60", "-w",
                                      "\n%{http_code}", scheme + "://" + rest_ + path} +
                                    more)
        .out;
  }
  std::string predict(const std::string& model, const std::string& body) const {
    return curl("/v1/models/" + model + ":predict", {"-d", body});
  }

  double resident_megabytes() const { return of_its_status("VmRSS:") / 1024; }
  int threads() const { return static_cast<int>(of_its_status("Threads:")); }

  Outcome browser(const std::string& model) const {
    return testing::run_program("/usr/bin/python3",
                                {std::string(ENGINES_DIR) + "/browser_client.py", rest_, model});
  }

  std::string grpcio(const Words& arguments) const {
    const Outcome outcome = testing::run_program(
        "/usr/bin/python3", Words{std::string(ENGINES_DIR) + "/grpc_client.py", grpc_} + arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  }

 private:
  double of_its_status(const std::string& label) const {
    const std::string page = testing::read_bytes(fmt::format("/proc/{}/status", program_.pid()));
    return std::stod(page.substr(page.find(label) + label.size()));
  }

  testing::RunningProgram program_;
  std::string grpc_;
  std::string rest_;
};

/// A client of HTTP/2 that only reads.
class Http2Frames {
 public:
  static constexpr char kSettings = 4;
  static constexpr char kGoaway = 7;

  explicit Http2Frames(const std::string& address) : connection_(address) {
    constexpr std::string_view kEmptySettings("\0\0\0\4\0\0\0\0\0", 9);
    connection_.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    connection_.send(kEmptySettings);
  }

  // False when the connection ends before a frame of that type.
  bool wait_for(char type) {
    while (true) {
      const std::string header = connection_.read(9);
      if (header.size() < 9) return false;
      std::size_t size = 0;
      for (int i = 0; i < 3; ++i) size = size << 8 | static_cast<unsigned char>(header[i]);
      connection_.read(size);
      if (header[3] == type) return true;
    }
  }

 private:
  testing::RawTcp connection_;
};

bool refuses_connections(const std::string& address) {
  return testing::run_program("/usr/bin/curl", {"-sS", "--noproxy", "*", "http://" + address + "/"})
             .status == 7;  // "Failed to connect to host".
}

class Serve : public ::testing::Test {
 protected:
  Serve() { write_adder(folder_ / "adder/1", 1); }
  TempDir folder_;
};

TEST_F(Serve, AnswersCurl) {
  const Server server({folder_ / "adder"});
  EXPECT_EQ(server.predict("adder", R"({"instances": [1, 2.5]})"),
            "{\n    \"predictions\": [2.0, 3.5\n    ]\n}\n200");
  EXPECT_THAT(server.curl("/v1/models/adder"), HasSubstr("\"state\": \"AVAILABLE\""));
  EXPECT_THAT(server.predict("nobody", "{}"),
              AllOf(HasSubstr("Servable not found for request: Latest(nobody)"),
                    ::testing::EndsWith("404")));
  EXPECT_THAT(server.curl("/v2/models/adder/infer",
                          {"-d", R"({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32",
                                     "data": [4]}]})"}),
              HasSubstr("\"data\":[5.0]"));
  EXPECT_THAT(server.curl("/v1/projects/p/models/adder:predict", {"-d", R"({"instances": [7]})"}),
              HasSubstr("\"predictions\": [8.0"));
  EXPECT_EQ(server.curl("/readyz"), "ok\n\n200");
  EXPECT_THAT(server.curl("/metrics"), HasSubstr("muster_requests_total{model=\"adder\""));
  EXPECT_EQ(server.curl("/v1/models/..%2f..%2fetc:predict", {"-d", R"({"instances": [1]})"}),
            "{\n    \"error\": \"Servable not found for request: Latest(../../etc)\"\n}\n404");
}

TEST_F(Serve, AnswersABrowsersFetch) {
  const Server server({folder_ / "adder", "--rest_api_enable_cors_support"});
  const Outcome outcome = server.browser("adder");
  if (outcome.status == 77) GTEST_SKIP() << "there is no chromium";
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(
      outcome.out,
      "status 200 { \"model_version_status\": [ { \"version\": \"1\", \"state\": "
      "\"AVAILABLE\", \"status\": { \"error_code\": \"OK\", \"error_message\": \"\" } } ] "
      "}\n"
      "predict 200 { \"predictions\": [2.0, 3.5 ] }\n"
      "columns 200 { \"outputs\": [4.0] }\n"
      "unknown-model 404 { \"error\": \"Servable not found for request: Latest(nobody)\" }\n"
      "no-json 400 { \"error\": \"JSON Parse error: Missing a name for object member. at offset: "
      "1\" }\n"
      "infer 200 {\"model_name\":\"adder\",\"model_version\":\"1\",\"outputs\":[{\"name\":"
      "\"y\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[5.0]}]}\n"
      "cloud 200 { \"predictions\": [8.0 ] }\n");
  // Without the flag the browser keeps the answer from the page.
  const Server closed({folder_ / "adder"});
  EXPECT_THAT(closed.browser("adder").out, HasSubstr("predict TypeError\n"));
}

TEST_F(Serve, AnswersNode) {
  const Path node = "/usr/bin/node";
  if (!file_exists(node)) GTEST_SKIP() << "there is no Node.js";
  const Server server({folder_ / "adder"});
  const Outcome outcome = testing::run_program(
      node, {std::string(ENGINES_DIR) + "/node_client.mjs", server.rest(), "adder"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::string answer = " 200 { \"predictions\": [2.0, 3.5 ] }\n";
  EXPECT_EQ(outcome.out,
            "plain 0" + answer + "waits 1" + answer + "eager 0" + answer + "chunks 1" + answer);
}

TEST_F(Serve, AnswersHeadAsGet) {
  const Server server({folder_ / "adder"});
  EXPECT_THAT(server.curl("/v1/models/adder", {"--head"}),
              AllOf(HasSubstr("HTTP/1.1 200 OK"), HasSubstr("Content-Type: application/json"),
                    ::testing::Not(HasSubstr("AVAILABLE"))));
}

TEST_F(Serve, NamesTheModelOfATrainingAfterItsFolder) {
  write_adder(folder_ / "run/export/best/7", 1);
  const Server server({folder_ / "run/"});
  EXPECT_THAT(server.predict("run", R"({"instances": [1]})"), HasSubstr("[2.0"));
  const Server exported({folder_ / "run/export/best"});
  EXPECT_THAT(exported.predict("best", R"({"instances": [1]})"), HasSubstr("[2.0"));
}

TEST_F(Serve, AnswersWithATorchScriptFileAsItIs) {
  std::filesystem::copy_file(Path(TORCH_SCRIPT_DIR) / "named.pt", folder_ / "named.pt");
  write_bytes(folder_ / "named.signature.json",
              R"({"inputs": {"x": {"dtype": "float32", "shape": [-1, 4]}}})");
  const Server server({folder_ / "named.pt"});
  EXPECT_THAT(server.curl("/v1/models/named/metadata"),
              AllOf(HasSubstr("\"probabilities\""), HasSubstr("DT_FLOAT"), HasSubstr("\n200")));
  EXPECT_THAT(server.predict("named", R"({"instances": [[1, 2, 3, 4]]})"),
              AllOf(HasSubstr("\"logits\""), HasSubstr("\n200")));
  EXPECT_THAT(server.predict("named", R"({"instances": [[1, 2, 3]]})"), HasSubstr("\n400"));
  EXPECT_THAT(server.curl("/v2/models/named"),
              AllOf(HasSubstr("\"pytorch_libtorch\""), HasSubstr("\"FP32\"")));
  EXPECT_THAT(server.curl("/v1/models/named:explain", {"-d", R"({"instances": [[1, 2, 3, 4]]})"}),
              HasSubstr("its model has no gradients"));
}

TEST_F(Serve, SaysThatAPortIsTakenBeforeItLoadsModels) {
  const Server server({folder_ / "adder"});
  const auto port_in = [](const std::string& address) {
    return address.substr(address.find(':') + 1);
  };
  const auto refusal = [&](const std::string& grpc, const std::string& rest) {
    const Outcome outcome =
        testing::run_program(MUSTER_PROGRAM, {"serve", folder_ / "adder", "--address", "127.0.0.1",
                                              "--port", grpc, "--rest-api-port", rest});
    EXPECT_EQ(outcome.status, 75);  // Worth another try.
    EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("serving model=")));
    return outcome.err;
  };
  EXPECT_THAT(refusal(port_in(server.grpc()), "auto"), HasSubstr("--port: cannot listen on port"));
  EXPECT_THAT(refusal("auto", port_in(server.rest())),
              HasSubstr("--rest-api-port: cannot listen on port"));
}

TEST_F(Serve, ChecksMethodNamesWhereItIsAskedTo) {
  const Server server({folder_ / "adder", "--enable_signature_method_name_check=true"});
  EXPECT_THAT(server.predict("adder", R"({"instances": [1]})"), HasSubstr("[2.0"));
  EXPECT_THAT(server.curl("/v1/models/adder:regress", {"-d", R"({"examples": [{"x": 1.0}]})"}),
              HasSubstr("Expected regression signature method_name to be"));
  EXPECT_THAT(server.err(), ::testing::Not(HasSubstr("signature_method_name_check")));
}

TEST_F(Serve, AnswersGrpcio) {
  const Server server({"--model_base_path=" + (folder_ / "adder").string(), "--model_name=m",
                       "--tensorflow_session_parallelism=2", "--enable_batching"});
  EXPECT_EQ(
      server.grpcio({"m", "x", "y", "3"}),
      "predict [4.0, 7.0]\n"
      "version 1\n"
      "unknown-model NOT_FOUND Servable not found for request: Latest(nobody)\n"
      "unknown-signature FAILED_PRECONDITION Serving signature key \"s\" not found.\n"
      "wrong-input INVALID_ARGUMENT Signature input alias: x(feed name: x:0) not found in request "
      "and no default value provided. Inputs expected to be in the request {x}, or default input "
      "alias set: \n"
      "garbage INTERNAL the request cannot be read as a PredictRequest\n"
      "metadata type.googleapis.com/tensorflow.serving.SignatureDefMap\n"
      "status 30\n"
      "infer ('id-1', (4.0, 7.0))\n"
      "ready 1\n"
      "health 1\n"
      "reflection grpc.health.v1.Health grpc.reflection.v1alpha.ServerReflection "
      "inference.GRPCInferenceService tensorflow.serving.ModelService "
      "tensorflow.serving.PredictionService\n"
      "reflection ModelService PredictionService\n"
      "watch 1\n"
      "stream (4.0, 7.0)\n"
      "stream Request for unknown model: 'nobody' is not found\n");
  EXPECT_THAT(server.err(), HasSubstr("--tensorflow_session_parallelism has no effect"));
}

TEST_F(Serve, TakesNewVersionsAndKeepsGoodOnes) {
  const Server server({folder_ / "adder"});
  // Half a copy: picked up when it is whole.
  std::filesystem::create_directories(folder_ / "adder/2");
  write_bytes(folder_ / "adder/2/saved_model.pb", "half");
  EXPECT_TRUE(testing::eventually([&] {
    return server.err().find("model adder version 2 could not be loaded") != std::string::npos;
  }));
  EXPECT_THAT(server.predict("adder", R"({"instances": [1]})"), HasSubstr("[2.0"));
  std::filesystem::remove_all(folder_ / "adder/2");
  write_adder(folder_ / "adder/2", 2);
  EXPECT_TRUE(testing::eventually([&] {
    return server.predict("adder", R"({"instances": [1]})").find("[3.0") != std::string::npos;
  })) << server.err();
  EXPECT_TRUE(testing::eventually([&] {
    return server.curl("/v1/models/adder/versions/1").find("\"END\"") != std::string::npos;
  }));
}

TEST_F(Serve, EndsInOrderOnSigterm) {
  Server server({folder_ / "adder"});
  EXPECT_THAT(server.predict("adder", R"({"instances": [1]})"), HasSubstr("[2.0"));
  server.send(SIGTERM);
  const Outcome outcome = server.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("stopped"));
}

TEST_F(Serve, StopsTakingConnectionsOfBothProtocolsAtOnce) {
  Server server({folder_ / "adder"});
  testing::RawTcp rest(server.rest());
  const std::string_view body = R"({"instances": [1]})";
  rest.send(
      fmt::format("POST /v1/models/adder:predict HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
                  "Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
                  body.size()));
  const std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_EQ(rest.read(go_on.size()), go_on);
  Http2Frames grpc(server.grpc());
  EXPECT_TRUE(grpc.wait_for(Http2Frames::kSettings));

  // The request over REST is in flight, and goes on.
  server.send(SIGTERM);
  EXPECT_TRUE(grpc.wait_for(Http2Frames::kGoaway));
  EXPECT_TRUE(testing::eventually([&] { return refuses_connections(server.grpc()); }));
  EXPECT_TRUE(testing::eventually([&] { return refuses_connections(server.rest()); }));
  rest.send(body);
  EXPECT_THAT(rest.read_to_end(), AllOf(HasSubstr("HTTP/1.1 200"), HasSubstr("[2.0")));
  EXPECT_EQ(server.wait().status, 0);
}

TEST_F(Serve, ReadsItsConfigurationAgainOnSighup) {
  const auto config = [&](const char* name) {
    return fmt::format(
        "model_config_list {{ config {{ name: '{}' base_path: '{}' model_platform: 'tensorflow' }} "
        "}}",
        name, (folder_ / "adder").string());
  };
  write_bytes(folder_ / "models.config", config("a"));
  const Server server({"--model_config_file", folder_ / "models.config"});
  EXPECT_THAT(server.predict("a", R"({"instances": [1]})"), HasSubstr("[2.0"));
  write_bytes(folder_ / "models.config", "model_config_list { config { nam: 'b' } }");
  server.send(SIGHUP);
  EXPECT_TRUE(testing::eventually(
      [&] { return server.err().find("what is served stays") != std::string::npos; }));
  EXPECT_THAT(server.predict("a", R"({"instances": [1]})"), HasSubstr("[2.0"));
  write_bytes(folder_ / "models.config", config("b"));
  server.send(SIGHUP);
  EXPECT_TRUE(testing::eventually([&] {
    return server.predict("b", R"({"instances": [1]})").find("[2.0") != std::string::npos;
  }));
  EXPECT_THAT(server.predict("a", R"({"instances": [1]})"), ::testing::EndsWith("404"));
}

TEST_F(Serve, ServesTheModelsAndVersionsThatCommandsMake) {
  write_adder(folder_ / "adder/2", 2);
  const auto command = [&](const Words& words) {
    const Outcome outcome =
        testing::run_program(MUSTER_PROGRAM, words + Words{"--models-dir", folder_ / "models"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  command({"models", "create", "census"});
  command({"versions", "create", "v1", "--model", "census", "--origin", folder_ / "adder/1",
           "--runtime-version", "1.15"});
  const Server server({"--models-dir", folder_ / "models"});
  const auto predictions = [&](const std::string& path) {
    return server.curl("/v1/projects/p/models/" + path + ":predict",
                       {"-d", R"({"instances": [1]})"});
  };
  EXPECT_THAT(predictions("census"), HasSubstr("[2.0"));
  command({"versions", "create", "v2", "--model", "census", "--origin", folder_ / "adder"});
  EXPECT_TRUE(testing::eventually([&] {
    return predictions("census/versions/v2").find("[3.0") != std::string::npos;
  })) << server.err();
  EXPECT_THAT(predictions("census"), HasSubstr("[2.0"));
  command({"versions", "set-default", "v2", "--model", "census"});
  EXPECT_TRUE(
      testing::eventually([&] { return predictions("census").find("[3.0") != std::string::npos; }));
  write_bytes(folder_ / "instances", "1\n2.5\n");
  const auto ask = [&](const std::string& model, const std::string& version) {
    return testing::run_program(
        MUSTER_PROGRAM, {"predict", "--model", model, "--version", version, "--json-instances",
                         folder_ / "instances", "--server", server.rest()});
  };
  EXPECT_EQ(ask("census", "v1").out, "2.0\n3.5\n");
  EXPECT_EQ(ask("census", "v2").out, "3.0\n4.5\n");
  EXPECT_EQ(ask("census", "v3").status, 1);
  EXPECT_THAT(ask("nobody", "v1").err, HasSubstr("HTTP request failed. Response:"));
  EXPECT_EQ(command({"models", "list"}), "NAME    DEFAULT_VERSION_NAME\ncensus  v2\n");
  EXPECT_THAT(command({"versions", "list", "--model", "census"}),
              StartsWith("NAME  DEPLOYMENT_URI"));
  EXPECT_THAT(command({"versions", "describe", "v2", "--model", "census"}),
              AllOf(HasSubstr("isDefault: true\n"), HasSubstr("state: READY\n")));
  command({"versions", "delete", "v1", "--model", "census", "--quiet"});
  EXPECT_TRUE(testing::eventually(
      [&] { return predictions("census/versions/v1").find("404") != std::string::npos; }));
  EXPECT_THAT(predictions("census"), HasSubstr("[3.0"));
}

TEST_F(Serve, SharesRequestsAmongVersionsAndKeepsCallersAtOne) {
  write_adder(folder_ / "adder/2", 2);
  std::filesystem::create_directories(folder_ / "models");
  const Server server({"--models-dir", folder_ / "models"});
  const auto command = [&](const Words& words) {
    const Outcome outcome =
        testing::run_program(MUSTER_PROGRAM, words + Words{"--server", server.rest()});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  command({"models", "create", "census"});
  command({"versions", "create", "v1", "--model", "census", "--origin", folder_ / "adder/1"});
  command({"versions", "create", "v2", "--model", "census", "--origin", folder_ / "adder"});
  // The versions that answer eight callers, by three protocols.
  const auto versions = [&](const std::string& path, const std::string& body) {
    std::string all;
    for (int user = 0; user < 8; ++user) {
      const std::string answer =
          server.curl(path, {"-d", body, "-H", fmt::format("X-Muster-Key: user-{}", user), "-i"});
      const auto at = answer.find("X-Muster-Version: ");
      all += at == std::string::npos ? '-' : answer[at + 18];
    }
    return all;
  };
  const std::string rows = R"({"instances": [1]})";
  const auto predicted = [&] { return versions("/v1/models/census:predict", rows); };
  EXPECT_TRUE(testing::eventually([&] {
    return server.curl("/v1/models/census/versions/2:predict", {"-d", rows}).find("[3.0") !=
           std::string::npos;
  })) << server.err();
  EXPECT_EQ(predicted(), std::string(8, '1'));
  command({"models", "update", "census", "--traffic-split", "v1=50,v2=50"});
  EXPECT_THAT(command({"models", "describe", "census"}),
              HasSubstr("trafficSplit:\n  v1: 50\n  v2: 50\n"));
  EXPECT_TRUE(testing::eventually([&] { return predicted().find('2') != std::string::npos; }));
  const std::string split = predicted();
  EXPECT_THAT(split, AllOf(HasSubstr("1"), HasSubstr("2")));
  EXPECT_EQ(predicted(), split);
  EXPECT_EQ(versions("/v1/projects/p/models/census:predict", rows), split);
  EXPECT_EQ(
      versions("/v2/models/census/infer",
               R"({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]})"),
      split);
  EXPECT_THAT(server.curl("/metrics"),
              HasSubstr("muster_model_version_share{model=\"census\",version=\"2\"} 0.5"));
  command({"versions", "set-default", "v2", "--model", "census"});
  EXPECT_TRUE(testing::eventually([&] { return predicted() == std::string(8, '2'); }));
}

TEST_F(Serve, ChangesItsModelsAndVersionsWhenCommandsAskIt) {
  std::filesystem::create_directories(folder_ / "models");
  const Server server({"--models-dir", folder_ / "models"});
  const auto run = [&](const Words& words) {
    return testing::run_program(MUSTER_PROGRAM, words + Words{"--server", server.rest()});
  };
  const auto command = [&](const Words& words) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  command({"models", "create", "census", "--description", "people"});
  command({"versions", "create", "v1", "--model", "census", "--origin", folder_ / "adder/1"});
  command({"versions", "create", "v2", "--model", "census", "--origin", folder_ / "adder"});
  command({"versions", "set-default", "v2", "--model", "census"});
  command({"versions", "update", "v2", "--model", "census", "--description", "the second"});
  EXPECT_EQ(command({"models", "list"}), "NAME    DEFAULT_VERSION_NAME\ncensus  v2\n");
  EXPECT_THAT(command({"models", "describe", "census"}),
              AllOf(HasSubstr("name: models/census/versions/v2\ndescription: people\n")));
  EXPECT_THAT(command({"versions", "list", "--model", "census"}),
              AllOf(HasSubstr("\nv1"), HasSubstr("\nv2"), HasSubstr("READY")));
  EXPECT_THAT(command({"versions", "describe", "v2", "--model", "census"}),
              AllOf(HasSubstr("isDefault: true\n"), HasSubstr("description: the second\n"),
                    HasSubstr("deploymentUri: " + (folder_ / "adder").string())));
  EXPECT_TRUE(testing::eventually([&] {
    return server.curl("/v1/projects/p/models/census:predict", {"-d", R"({"instances": [1]})"})
               .find("predictions") != std::string::npos;
  })) << server.err();

  const Outcome refused = run({"versions", "delete", "v2", "--model", "census", "--quiet"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("v2 is the default version of model census"));
  command({"versions", "delete", "v1", "--model", "census", "--quiet"});
  command({"versions", "delete", "v2", "--model", "census", "--quiet"});
  command({"models", "delete", "census", "--quiet"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "models/census"));

  // Names stay inside the folder, a page in a browser cannot post, and nothing is made half.
  EXPECT_THAT(run({"models", "create", "../up"}).err, HasSubstr("cannot be the name of a model"));
  EXPECT_THAT(server.curl("/v1/projects/p/models", {"-d", R"({"name": "a"})"}),
              HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(server.curl("/v1/projects/p/models",
                          {"-H", "Content-Type: application/json", "-d", R"({"name": ["a"]})"}),
              HasSubstr("\\\"name\\\" must be a text"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "models"));
}

TEST_F(Serve, SpeaksTlsToWhoeverHasAToken) {
  const Path key = folder_ / "key.pem";
  const Path certificate = folder_ / "certificate.pem";
  const auto make_certificate = [&](const Path& file) {
    const Outcome made = testing::run_program(
        "/usr/bin/openssl",
        {"req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", file, "-days",
         "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"});
    EXPECT_EQ(made.status, 0) << made.err;
  };
  make_certificate(certificate);
  const auto quoted = [](const Path& path) {
    std::string text = testing::read_bytes(path);
    std::string out;
    for (const char c : text) out += c == '\n' ? std::string("\\n") : std::string(1, c);
    return out;
  };
  write_bytes(folder_ / "ssl.config", fmt::format("server_key: \"{}\" server_cert: \"{}\"",
                                                  quoted(key), quoted(certificate)));
  write_bytes(folder_ / "tokens", "user predict\n");
  const Server server({folder_ / "adder", "--ssl_config_file", folder_ / "ssl.config",
                       "--tokens-file", folder_ / "tokens"});
  const Words body{"--cacert", certificate, "-d", R"({"instances": [1]})"};
  EXPECT_THAT(server.curl("/v1/models/adder:predict", body, "https"), ::testing::EndsWith("401"));
  EXPECT_THAT(server.curl("/v1/models/adder:predict",
                          body + Words{"-H", "Authorization: Bearer user"}, "https"),
              HasSubstr("[2.0"));
  EXPECT_THAT(server.grpcio({"adder", "x", "y", "3", "--ca", certificate, "--token", "user"}),
              StartsWith("predict [4.0, 7.0]\n"));
  EXPECT_THAT(server.grpcio({"adder", "x", "y", "3", "--ca", certificate}),
              StartsWith("predict UNAUTHENTICATED "));
  // A wrong file changes nothing; another certificate is used from the next connection on.
  write_bytes(folder_ / "ssl.config", "server_key: \"x\" server_cert: \"y\"");
  server.send(SIGHUP);
  EXPECT_TRUE(testing::eventually(
      [&] { return server.err().find("the certificates stay") != std::string::npos; }));
  EXPECT_THAT(server.curl("/healthz", {"--cacert", certificate}, "https"), HasSubstr("200"));
  const Path other = folder_ / "other.pem";
  make_certificate(other);
  EXPECT_THAT(server.curl("/healthz", {"--cacert", other}, "https"), HasSubstr("000"));
  write_bytes(folder_ / "ssl.config",
              fmt::format("server_key: \"{}\" server_cert: \"{}\"", quoted(key), quoted(other)));
  server.send(SIGHUP);
  EXPECT_TRUE(testing::eventually([&] {
    return server.curl("/healthz", {"--cacert", other}, "https").ends_with("200");
  })) << server.err();
  EXPECT_THAT(server.grpcio({"adder", "x", "y", "3", "--ca", other, "--token", "user"}),
              StartsWith("predict [4.0, 7.0]\n"));
}

TEST_F(Serve, StandsHostileClients) {
  const Server server({folder_ / "adder", "--rest-api-max-body-bytes", "100000"});
  for (const std::string& bytes :
       {std::string("\x16\x03\x01\x02"), std::string("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string(100'000, 'A'),
        "POST /v1/models/adder:predict HTTP/1.1\r\nHost: h\r\nContent-Length: "
        "99999999999999999999\r\n\r\n" +
            std::string(10, 'x'),
        std::string("POST /v1/models/adder:predict HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
                    "chunked\r\n\r\nffffffffffffffff\r\n")}) {
    testing::RawTcp rest(server.rest());
    rest.send(bytes);
    testing::RawTcp grpc(server.grpc());
    grpc.send(bytes);
  }
  const std::string deep = "{\"instances\": " + std::string(40'000, '[');
  EXPECT_THAT(server.predict("adder", deep), HasSubstr("nested deeper than"));
  write_bytes(folder_ / "large", std::string(200'000, ' '));
  EXPECT_THAT(server.curl("/v1/models/adder:predict",
                          {"--data-binary", "@" + (folder_ / "large").string()}),
              ::testing::EndsWith("413"));
  EXPECT_THAT(server.predict("adder", R"({"instances": [1]})"), HasSubstr("[2.0"));
  EXPECT_THAT(server.grpcio({"adder", "x", "y", "3"}), StartsWith("predict [4.0, 7.0]\n"));
}

TEST_F(Serve, StandsHttp2Floods) {
  const Server server({folder_ / "adder"});
  server.grpcio({"adder", "x", "y", "3"});
  const double before = server.resident_megabytes();
  const Outcome outcome = testing::run_program(
      "/usr/bin/python3", {std::string(ENGINES_DIR) + "/http2_floods.py", server.grpc(), "adder",
                           "x", testing::are_tests_long() ? "1000000" : "5000"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::cerr << outcome.out;
  for (const char* flood :
       {"settings_flood", "ping_flood", "rapid_reset", "continuation_flood", "empty_continuations",
        "empty_data", "priority_flood", "open_streams", "wrong_frames"}) {
    EXPECT_THAT(outcome.out, ::testing::ContainsRegex(fmt::format("{} [a-z]+ ok ok\n", flood)));
  }
  // That of 10,000 streams that are open at one time, however many frames there were.
  EXPECT_LT(server.resident_megabytes(), before + 400);
  EXPECT_THAT(server.predict("adder", R"({"instances": [1]})"), HasSubstr("[2.0"));
}

TEST_F(Serve, ShedsWhatIsTooMuchAndAnswersTheRest) {
  write_busy_model(folder_ / "busy/1", 400);
  write_bytes(
      folder_ / "models.config",
      fmt::format("model_config_list {{"
                  " config {{ name: 'busy' base_path: '{}' model_platform: 'tensorflow' }}"
                  " config {{ name: 'adder' base_path: '{}' model_platform: 'tensorflow' }} }}",
                  (folder_ / "busy").string(), (folder_ / "adder").string()));
  const Server server({"--model_config_file", folder_ / "models.config", "--enable-batching=false",
                       "--rest-api-timeout-in-ms", "1000", "--num-batch-threads", "1"});
  testing::HttpLoad load{.address = server.rest(),
                         .request = predict_request("busy", R"({"instances": [1]})"),
                         .connections = 4,
                         .time = std::chrono::seconds(testing::are_tests_long() ? 10 : 1)};
  const auto peak = testing::run(load);
  ASSERT_GT(peak.goodput(), 1);
  const double before = server.resident_megabytes();
  load.connections = 2000;
  // Where the machine is used by others too, the peak may be one of a bad moment.
  load.rate = std::max(10 * peak.goodput(), testing::are_tests_long() ? 0.0 : 3000.0);
  load.time = std::chrono::seconds(testing::are_tests_long() ? 60 : 3);
  int refused = 0;
  int answered = 0;
  // Another model, asked now and then, until this ends or fails.
  std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const std::string answer = server.predict("adder", R"({"instances": [1]})");
      answered += answer.find("[2.0") != std::string::npos ? 1 : 0;
      refused += answer.ends_with("429") ? 1 : 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  auto overload = testing::run(load);
  other.request_stop();
  other.join();
  const double after = server.resident_megabytes();
  load.connections = 4;
  const double offered = std::exchange(load.rate, 0);
  load.time = std::chrono::seconds(1);
  const auto calm = testing::run(load);
  std::cerr << fmt::format(
      "peak {:.0f}/s; overload: goodput {:.0f}/s of {:.0f}/s offered, 429 {} 504 {}, p50 {:.0f} "
      "ms, "
      "max {:.0f} ms; other model {} answered, {} refused; memory {:.0f} -> {:.0f} MB; then "
      "{:.0f}/s\n",
      peak.goodput(), overload.goodput(), offered, overload.statuses[429], overload.statuses[504],
      1e3 * overload.quantile(0.5), 1e3 * overload.quantile(1), answered, refused, before, after,
      calm.goodput());
  EXPECT_EQ(overload.broken, 0);
  EXPECT_EQ(overload.different, 0);
  EXPECT_GT(overload.statuses[429] + overload.statuses[504], overload.statuses[200]);
  EXPECT_EQ(refused, 0);
  EXPECT_GT(answered, 0);
  EXPECT_THAT(calm.statuses, ElementsAre(::testing::Key(200)));  // Nothing is refused any more.
  EXPECT_LT(after, before + 200);
  // How much of it there is says serving_bench.
  EXPECT_GE(overload.goodput(), 0.1 * peak.goodput());
}

TEST_F(Serve, ComputesABatchInAsManyThreadsAsGiven) {
  write_busy_model(folder_ / "busy/1", 400);
  const auto threads_with = [&](const char* given) {
    const Server server({folder_ / "busy", "--tensorflow-intra-op-parallelism", given});
    EXPECT_THAT(server.predict("busy", R"({"instances": [1]})"), HasSubstr("[1.0"));
    return server.threads();
  };
  EXPECT_GE(threads_with("3"), threads_with("1") + 2);
}

TEST_F(Serve, SwapsVersionsUnderLoadWithoutAWrongAnswer) {
  const int swaps = testing::are_tests_long() ? 1000 : 20;
  // Before anything is measured: on few processors answers would wait for what writes models.
  for (int version = 2; version <= swaps + 1; ++version) {
    write_adder(folder_ / "new" / std::to_string(version), 1);
  }
  const Server server({folder_ / "adder"});
  testing::HttpLoad load{.address = server.rest(),
                         .request = predict_request("adder", R"({"instances": [1]})"),
                         .connections = 8,
                         .rate = 1000,
                         .time = std::chrono::milliseconds(500)};
  std::vector<testing::HttpLoadResult> before(testing::are_tests_long() ? 20 : 2);
  for (auto& result : before) result = testing::run(load);
  std::vector<testing::HttpLoadResult> results;
  std::jthread client([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) results.push_back(testing::run(load));
  });
  // Nor for what asks for states, and starting a program for each question all the more.
  std::jthread([&] {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
    for (int version = 2; version <= swaps + 1; ++version) {
      const std::string number = std::to_string(version);
      std::filesystem::rename(folder_ / "new" / number, folder_ / "adder" / number);
      ASSERT_TRUE(testing::eventually([&] {
        testing::RawTcp connection(server.rest());
        connection.send("GET /v1/models/adder/versions/" + number +
                        " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        return connection.read_to_end().find("\"AVAILABLE\"") != std::string::npos;
      })) << server.err();
      std::filesystem::remove_all(folder_ / "adder" / std::to_string(version - 1));
    }
  }).join();
  client.request_stop();
  client.join();
  testing::HttpLoadResult all;
  for (const auto& result : results) {
    EXPECT_EQ(result.broken, 0);
    EXPECT_EQ(result.different, 0);
    for (const auto& [status, count] : result.statuses) all.statuses[status] += count;
  }
  // The middle one of all half seconds, in some of which a shared machine does other things.
  const auto usual_p99 = [](const std::vector<testing::HttpLoadResult>& loads) {
    std::vector<double> values;
    values.reserve(loads.size());
    for (const auto& one : loads) values.push_back(1e3 * one.quantile(0.99));
    std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
    return values[values.size() / 2];
  };
  std::cerr << fmt::format(
      "{} swaps, {} answers: p99 {:.2f} ms, without swaps {:.2f} ms (medians of half seconds)\n",
      swaps, all.statuses[200], usual_p99(results), usual_p99(before));
  EXPECT_THAT(all.statuses, ElementsAre(::testing::Pair(200, ::testing::Gt(0))));
}

TEST_F(Serve, HoldsManyIdleConnections) {
  constexpr std::size_t kOthers = 500;  // Descriptors that are no idle connections.
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < 4 * kOthers) GTEST_SKIP() << "ulimit -Hn is " << limit.rlim_max;
  // On each of the two ports.
  const std::size_t count = std::min<std::size_t>(testing::are_tests_long() ? 10'000 : 500,
                                                  (limit.rlim_max - kOthers) / 2);
  const Server server({folder_ / "adder", "--rest-api-max-connections", std::to_string(count)});
  const double before = server.resident_megabytes();
  std::vector<testing::RawTcp> idle;
  // One is left for the request.
  while (idle.size() + 1 < count) idle.emplace_back(server.rest());
  std::vector<testing::RawTcp> idle_grpc;
  while (idle_grpc.size() < count) idle_grpc.emplace_back(server.grpc());
  EXPECT_TRUE(testing::eventually([&] {
    return server.predict("adder", R"({"instances": [1]})").find("[2.0") != std::string::npos;
  }));
  EXPECT_THAT(server.grpcio({"adder", "x", "y", "3"}), StartsWith("predict [4.0, 7.0]\n"));
  std::cerr << fmt::format("{} idle connections on each port: memory {:.0f} -> {:.0f} MB\n", count,
                           before, server.resident_megabytes());
  EXPECT_LT(server.resident_megabytes(), before + 50 + 0.1 * static_cast<double>(count));
  idle.emplace_back(server.rest());
  EXPECT_TRUE(testing::eventually(
      [&] { return server.predict("adder", R"({"instances": [1]})").ends_with("503"); }));
  idle.clear();
  EXPECT_TRUE(testing::eventually([&] {
    return server.predict("adder", R"({"instances": [1]})").find("[2.0") != std::string::npos;
  }));
}

TEST_F(Serve, SaysWhatIsWrongWithItsCommandLine) {
  const auto refusal = [&](const Words& flags) {
    const Outcome outcome = testing::run_program(MUSTER_PROGRAM, Words{"serve"} + flags);
    EXPECT_NE(outcome.status, 0);
    return outcome.err;
  };
  EXPECT_THAT(refusal({}), HasSubstr("--model-base-path or --model-config-file"));
  EXPECT_THAT(refusal({folder_ / "none"}), HasSubstr("there is no folder or file"));
  EXPECT_THAT(refusal({"--model_base_pat", "x"}), HasSubstr("--model_base_pat"));
  EXPECT_THAT(refusal({folder_ / "adder", "--port", "0", "--rest-api-port", "0"}),
              HasSubstr("nothing to listen on"));
  EXPECT_THAT(refusal({folder_ / "adder", "--rest-api-port", "x"}), HasSubstr("--rest-api-port"));
  EXPECT_THAT(refusal({folder_ / "adder", "--device", "cuda:99"}),
              HasSubstr("--device has \"cuda:99\", which is not there; there are: cpu"));
  for (const char* weights : {"adder=0", "adder=1,"}) {
    EXPECT_THAT(refusal({folder_ / "adder", "--model-weights", weights}),
                HasSubstr("--model-weights must be name=weight,name=weight"))
        << weights;
  }
  EXPECT_THAT(refusal({folder_ / "adder", "--model-weights", "adder=2,other=3"}),
              HasSubstr("--model-weights: there is no model other; it is adder"));
  std::filesystem::create_directories(folder_ / "bad/1");
  write_bytes(folder_ / "bad/1/saved_model.pb", "half");
  EXPECT_THAT(refusal({folder_ / "bad", "--port", "auto", "--rest-api-port", "auto"}),
              HasSubstr("saved_model.pb"));
}

TEST(ServeStockModels, AnswerThroughEveryProtocol) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const Server server(
      {"--model_base_path", data / "tensorflow/half_plus_two", "--model_name", "half_plus_two"});
  EXPECT_EQ(server.predict("half_plus_two", R"({"instances": [1.0, 2.0, 5.0]})"),
            "{\n    \"predictions\": [2.5, 3.0, 4.5\n    ]\n}\n200");
  EXPECT_THAT(server.curl("/v1/models/half_plus_two/versions/123:regress",
                          {"-d", R"({"signature_name": "regress_x_to_y",
                                     "examples": [{"x": 1.0}, {"x": 2.0}]})"}),
              HasSubstr("\"results\": [2.5, 3.0"));
  EXPECT_THAT(server.curl("/v1/models/half_plus_two:classify",
                          {"-d", R"({"signature_name": "classify_x_to_y",
                                     "examples": [{"x": 1.0}]})"}),
              HasSubstr("\"results\": [[[\"\", 2.5]]"));
  EXPECT_THAT(server.grpcio({"half_plus_two", "x", "y", "3"}),
              StartsWith("predict [3.5, 5.0]\nversion 123\n"));
}

TEST(ServeStockModels, AreServedWhenTheirLastFileIsCopied) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const Path origin = data / "tensorflow/half_plus_two/00000123";
  const TempDir folder;
  write_adder(folder / "1", 1);
  const Server server({folder.path(), "--model_name", "m"});
  const Path copy = folder / "2";
  for (const char* const name : {"assets", "variables"}) {
    std::filesystem::create_directories(copy / name);
  }
  // Each time the log names the file that comes next, and the good version goes on.
  std::string missing = "saved_model.pb";
  for (const std::string next :
       {"assets/foo.txt", "variables/variables.index", "variables/variables.data-00000-of-00001"}) {
    std::filesystem::copy_file(origin / missing, copy / missing);
    const std::regex told("version 2 could not be loaded: [^\n]*" + (copy / next).string());
    EXPECT_TRUE(testing::eventually([&] { return std::regex_search(server.err(), told); }))
        << server.err();
    EXPECT_THAT(server.predict("m", R"({"instances": [1]})"), HasSubstr("[2.0"));
    missing = next;
  }
  EXPECT_THAT(server.curl("/v1/models/m/versions/2"), HasSubstr(missing));
  // And the last one, piece by piece.
  const std::string bytes = testing::read_bytes(origin / missing);
  write_bytes(copy / missing, bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(server.predict("m", R"({"instances": [1]})"), HasSubstr("[2.0"));
  write_bytes(copy / missing, bytes);
  EXPECT_TRUE(testing::eventually([&] {
    return server.predict("m", R"({"instances": [1]})").find("[2.5") != std::string::npos;
  })) << server.err();
}

}  // namespace
}  // namespace muster
