#include "muster/serving/load/load_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/records/record_writer.h"
#include "muster/inference.pb.h"
#include "muster/serving.pb.h"
#include "muster/serving/codec/predict_request.h"
#include "muster/serving/core/service_fake.h"
#include "muster/serving/load/call_server.h"
#include "muster/serving/protocols/grpc_server.h"
#include "muster/serving/protocols/rest_api.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::serving {
namespace {

namespace wire = tensorflow::serving;
using graph::DataType;
using graph::SignatureDef;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr LoadProtocol kAllProtocols[] = {LoadProtocol::kRest, LoadProtocol::kGrpc,
                                          LoadProtocol::kOipRest, LoadProtocol::kOipGrpc};

SignatureDef signature_with(const std::string& name, DataType type, graph::Shape shape) {
  return {.inputs = {{name, {.dtype = type, .shape = std::move(shape)}}}};
}

/// A server of the model "m" over all protocols.
class LoadedServer {
 public:
  std::string call(LoadProtocol protocol, const PreparedRequest& request) {
    const auto port = is_grpc(protocol) ? grpc_.port() : http_.port();
    const ServerAddress server = resolve_server(fmt::format("127.0.0.1:{}", port));
    return call_server(server, is_grpc(protocol), "", request,
                       Deadline::after(std::chrono::minutes(1)));
  }

 private:
  FakeService fake_{};
  RestApi api_{fake_.service(), {}};
  HttpServer http_{{.address = "127.0.0.1"},
                   [this](HttpRequest one) { return api_.handle(std::move(one)); },
                   RestApi::queue_of};
  GrpcServer grpc_{fake_.service(), {.address = "127.0.0.1"}};
};

TEST(LoadProtocol, HasAWordForEach) {
  for (const LoadProtocol protocol : kAllProtocols) {
    EXPECT_EQ(load_protocol_named(name_of(protocol)), protocol);
  }
  EXPECT_THAT(message_of([] { load_protocol_named("http"); }),
              HasSubstr("must be rest, grpc, oip or oip-grpc: http"));
}

TEST(LoadRequests, AreGeneratedFromTheServersMetadataAndAnsweredOverEveryProtocol) {
  LoadedServer server;
  for (const LoadProtocol protocol : kAllProtocols) {
    const ModelAddress model{.name = "m"};
    const SignatureDef signature = signature_from_metadata(
        protocol, model, server.call(protocol, metadata_request(protocol, model)));
    ASSERT_EQ(signature.inputs.size(), 1U) << name_of(protocol);
    EXPECT_EQ(signature.inputs.at("x").dtype, DataType::kFloat);
    EXPECT_EQ(signature.inputs.at("x").shape, graph::Shape({-1}));
    const auto requests =
        generated_requests(protocol, model, signature, {.rows = 3, .distinct = 2, .seed = 1});
    ASSERT_EQ(requests.size(), 2U);
    EXPECT_NE(requests[0].body, requests[1].body);
    for (const PreparedRequest& request : requests) {
      EXPECT_NE(server.call(protocol, request), "") << name_of(protocol);
    }
  }
}

TEST(LoadRequests, AreThoseOfAVersionAndASignature) {
  LoadedServer server;
  for (const LoadProtocol protocol : {LoadProtocol::kRest, LoadProtocol::kGrpc}) {
    for (const char* const version : {"1", "stable"}) {
      const ModelAddress model{.name = "m", .version = version, .signature = "two"};
      const SignatureDef signature = signature_from_metadata(
          protocol, model, server.call(protocol, metadata_request(protocol, model)));
      EXPECT_EQ(signature.inputs.size(), 2U);
      const auto requests = generated_requests(protocol, model, signature, {.distinct = 1});
      EXPECT_THAT(server.call(protocol, requests.front()), HasSubstr("text_bytes"));
    }
    const ModelAddress unknown{.name = "m", .signature = "three"};
    EXPECT_THAT(
        message_of([&] {
          signature_from_metadata(protocol, unknown,
                                  server.call(protocol, metadata_request(protocol, unknown)));
        }),
        HasSubstr("has no signature three; it has classify, regress, serving_default, two"));
  }
  const ModelAddress nobody{.name = "nobody"};
  for (const LoadProtocol protocol : kAllProtocols) {
    EXPECT_THROW(server.call(protocol, metadata_request(protocol, nobody)), FailedPrecondition);
  }
}

TEST(LoadRequests, OfMetadataThatDoesNotDescribeInputsSaySo) {
  for (const LoadProtocol protocol : kAllProtocols) {
    for (const char* const answer :
         {"{}", "[]", "{\"metadata\": 1}", "{\"inputs\": 1}", "{\"inputs\": [{\"name\": 1}]}",
          "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\", \"shape\": [\"a\"]}]}",
          "{\"metadata\": {\"signature_def\": {\"signature_def\": {\"serving_default\": {"
          "\"inputs\": {\"x\": {\"dtype\": \"DT_FLOAT\", "
          "\"tensor_shape\": {\"unknown_rank\": \"yes\"}}}}}}}}",
          "\xff"}) {
      EXPECT_THROW(signature_from_metadata(protocol, {.name = "m"}, answer), Error)
          << name_of(protocol) << " " << answer;
    }
  }
}

TEST(LoadRequests, OfTheSameSeedAreTheSame) {
  const SignatureDef signature = signature_with("x", DataType::kFloat, {-1, 4});
  EXPECT_EQ(generated_inputs(signature, 2, 7), generated_inputs(signature, 2, 7));
  EXPECT_NE(generated_inputs(signature, 2, 7), generated_inputs(signature, 2, 8));
  EXPECT_THAT(generated_inputs(signature, 2, 7).at("x").shape, ElementsAre(2, 4));
}

TEST(LoadRequests, HaveValuesOfEveryTypeThatARequestCanHold) {
  for (const DataType type :
       {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kInt8, DataType::kUint8,
        DataType::kInt16, DataType::kUint16, DataType::kInt32, DataType::kUint32, DataType::kInt64,
        DataType::kUint64, DataType::kBool, DataType::kString}) {
    const Tensors inputs = generated_inputs(signature_with("x", type, {-1, -1, 3}), 2, 0);
    EXPECT_NO_THROW(inputs.at("x").check()) << graph::name_of(type);
    EXPECT_THAT(inputs.at("x").shape, ElementsAre(2, 1, 3));
  }
  EXPECT_THAT(
      message_of([] { generated_inputs(signature_with("x", DataType::kVariant, {-1}), 1, 0); }),
      HasSubstr("values of input x cannot be made up: its type is DT_VARIANT; give --instances"));
}

TEST(LoadRequests, AreRefusedBeforeTheyTakeTooMuchMemory) {
  EXPECT_THROW(
      generated_inputs(signature_with("x", DataType::kFloat, {-1, 1 << 20, 1 << 20}), 1, 0),
      InvalidArgument);
  EXPECT_THROW(
      generated_inputs(signature_with("x", DataType::kString, {-1}), std::int64_t{1} << 62, 0),
      InvalidArgument);
}

TEST(LoadRequests, OverRestAreRowsWhereInputsHaveRowsElseTensors) {
  const auto body = [](const graph::Shape& shape) {
    const SignatureDef signature = signature_with("x", DataType::kInt32, shape);
    return encoded_request(LoadProtocol::kRest, {.name = "m"}, signature,
                           generated_inputs(signature, 2, 0))
        .body;
  };
  EXPECT_THAT(body({-1, 2}), ::testing::StartsWith("{\"instances\": [{\"x\": ["));
  EXPECT_THAT(body({2, 2}), ::testing::StartsWith("{\"inputs\": {\"x\": [["));
}

TEST(LoadRequests, OfLinesHaveTheLinesOverEveryProtocol) {
  LoadedServer server;
  const SignatureDef signature = signature_with("x", DataType::kFloat, {-1});
  for (const LoadProtocol protocol : kAllProtocols) {
    const auto requests = requests_of_lines(protocol, {.name = "m"}, signature,
                                            "{\"x\": 1}\n{\"x\": 2.5}\n{\"x\": 4}\n", 2);
    ASSERT_EQ(requests.size(), 2U);
    EXPECT_NO_THROW(server.call(protocol, requests[0])) << name_of(protocol);
    EXPECT_NO_THROW(server.call(protocol, requests[1])) << name_of(protocol);
  }
  const auto rest = requests_of_lines(LoadProtocol::kRest, {.name = "m"}, signature, "1\n2\n", 2);
  EXPECT_EQ(rest[0].body, "{\"instances\": [1, 2]}");
  EXPECT_THAT(message_of([&] {
                requests_of_lines(LoadProtocol::kRest, {.name = "m"}, signature, "1\n{\n", 1);
              }),
              HasSubstr("2"));
  EXPECT_THAT(message_of([&] {
                requests_of_lines(LoadProtocol::kGrpc, {.name = "m"}, signature, "1\n\"a\"\n", 1);
              }),
              HasSubstr("the request of lines 2 to 2"));
}

TEST(LoadRequests, ThatWereRecordedAreSentToTheModel) {
  LoadedServer server;
  const testing::TempDir folder;
  const Path file = folder / "requests";
  {
    RecordWriter writer(file);
    wire::PredictionLog record;
    auto& request = *record.mutable_predict_log()->mutable_request();
    request.mutable_model_spec()->set_name("another");
    auto& x = (*request.mutable_inputs())["x"];
    x.set_dtype(muster::proto::DT_FLOAT);
    x.mutable_tensor_shape()->add_dim()->set_size(1);
    x.add_float_val(41);
    writer.append(record.SerializeAsString());
    record.Clear();
    auto& regress = *record.mutable_regress_log()->mutable_request();
    regress.mutable_model_spec()->set_signature_name("regress");
    regress.mutable_input()->mutable_example_list()->add_examples();
    writer.append(record.SerializeAsString());
    writer.close();
  }
  const auto requests = recorded_requests(LoadProtocol::kGrpc, {.name = "m"}, file);
  ASSERT_EQ(requests.size(), 2U);
  wire::PredictResponse answer;
  ASSERT_TRUE(answer.ParseFromString(server.call(LoadProtocol::kGrpc, requests[0])));
  EXPECT_EQ(answer.outputs().at("y").float_val(0), 43);
  EXPECT_THAT(requests[1].path, HasSubstr("/Regress"));
  EXPECT_NO_THROW(server.call(LoadProtocol::kGrpc, requests[1]));
  EXPECT_THROW(recorded_requests(LoadProtocol::kRest, {.name = "m"}, file), InvalidArgument);
}

TEST(LoadRequests, OfAFileThatIsNoneNameFileAndRecord) {
  const testing::TempDir folder;
  {
    RecordWriter writer(folder / "requests");
    writer.append("\xff\xff\xff");
    writer.close();
  }
  EXPECT_THAT(message_of([&] {
                recorded_requests(LoadProtocol::kGrpc, {.name = "m"}, folder / "requests");
              }),
              HasSubstr("requests: record 0 is no PredictionLog"));
  EXPECT_THROW(recorded_requests(LoadProtocol::kGrpc, {.name = "m"}, folder / "none"), NotFound);
}

}  // namespace
}  // namespace muster::serving
