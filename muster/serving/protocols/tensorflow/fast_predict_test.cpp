#include "muster/serving/protocols/tensorflow/fast_predict_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "muster/serving/core/service_fake.h"
#include "muster/serving/protocols/tensorflow/tensor_proto_internal.h"
#include "muster/serving/protocols/tensorflow/tensorflow_requests_internal.h"
#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

namespace tfs = tensorflow::serving;
using graph::DataType;
using graph::SignatureDef;
using graph::TensorValue;
using muster::proto::TensorProto;
using testing::message_of;

constexpr std::size_t kFastRoom = 1 << 20;

std::vector<TensorValue> tensors_of_every_kind() {
  return {TensorValue::vector<float>({1.5F, -2}),
          TensorValue::vector<double>({0.1}),
          TensorValue::vector<std::int32_t>({1, -2, 1 << 30}),
          TensorValue::vector<std::int64_t>({std::int64_t{1} << 40, -1}),
          TensorValue{.dtype = DataType::kBool, .shape = {2, 1}, .bytes = std::string("\1\0", 2)},
          TensorValue::of_strings({2, 1}, {"a", std::string("\0\xFF", 2)}),
          TensorValue::of_strings({1}, {""}),
          TensorValue::scalar<float>(3)};
}

std::vector<TensorValue> tensors_left_to_protobuf() {
  return {TensorValue::vector<std::int8_t>({-1}), TensorValue::vector<std::uint16_t>({7}),
          TensorValue::vector<std::uint32_t>({1U << 31})};
}

SignatureDef signature_of(const TensorValue& tensor) {
  const graph::TensorInfo info{.name = "x:0", .dtype = tensor.dtype, .shape = graph::Shape::any()};
  return {.inputs = {{"x", info}}, .outputs = {{"y", info}}};
}

tfs::PredictRequest request_with(const TensorValue& tensor, bool raw) {
  tfs::PredictRequest request;
  request.mutable_model_spec()->set_name("m");
  write_tensor(tensor, raw, (*request.mutable_inputs())["x"]);
  return request;
}

std::optional<Tensors> fast_tensors(const std::string& bytes, const SignatureDef& signature) {
  const auto fast = FastPredict::parse(bytes);
  return fast ? fast->tensors(signature, kFastRoom) : std::nullopt;
}

TEST(FastPredict, ReadsTheSameTensorsAsProtobuf) {
  for (const TensorValue& tensor : tensors_of_every_kind()) {
    for (const bool raw : {false, true}) {
      const tfs::PredictRequest request = request_with(tensor, raw);
      const auto made = fast_tensors(request.SerializeAsString(), signature_of(tensor));
      ASSERT_TRUE(made);
      EXPECT_EQ(made->at("x"), tensor);
      EXPECT_EQ(*made, predict_inputs(request, signature_of(tensor), kFastRoom));
    }
  }
}

TEST(FastPredict, ReadsWhatIsAskedFor) {
  tfs::PredictRequest request = request_with(TensorValue::scalar<float>(1), false);
  request.mutable_model_spec()->set_signature_name("s");
  request.mutable_model_spec()->mutable_version()->set_value(7);
  request.add_output_filter("y");
  auto fast = FastPredict::parse(request.SerializeAsString());
  ASSERT_TRUE(fast);
  EXPECT_EQ(fast->version().number, 7);
  EXPECT_EQ(fast->version().label, "");
  const std::string bytes = request.SerializeAsString();
  fast = FastPredict::parse(bytes);
  EXPECT_EQ(fast->model(), "m");
  EXPECT_EQ(fast->signature_name(), "s");
  EXPECT_THAT(fast->output_filter(), ::testing::ElementsAre("y"));
  request.mutable_model_spec()->set_version_label("stable");
  fast = FastPredict::parse(request.SerializeAsString());
  ASSERT_TRUE(fast);
  EXPECT_EQ(fast->version().number, std::nullopt);
  EXPECT_EQ(fast->version().label, "stable");
}

// Each is answered by what reads protobuf's messages, and the same as by it.
TEST(FastPredict, LeavesToProtobufWhatIsNotPlain) {
  const TensorValue two = TensorValue::vector<float>({1, 2});
  const SignatureDef signature = signature_of(two);
  const auto is_left = [&](const std::function<void(tfs::PredictRequest&, TensorProto&)>& change) {
    tfs::PredictRequest request = request_with(two, false);
    change(request, (*request.mutable_inputs())["x"]);
    return !fast_tensors(request.SerializeAsString(), signature);
  };
  EXPECT_FALSE(is_left([](auto&, auto&) {}));
  EXPECT_TRUE(is_left([](auto& request, auto&) { request.clear_model_spec(); }));
  EXPECT_TRUE(is_left([](auto& request, auto&) { request.mutable_model_spec()->clear_name(); }));
  EXPECT_TRUE(
      is_left([](auto& request, auto&) { request.mutable_model_spec()->set_name("\xC3\xA4"); }));
  EXPECT_TRUE(is_left([](auto& request, auto&) { request.clear_inputs(); }));
  EXPECT_TRUE(is_left([](auto& request, auto& x) { (*request.mutable_inputs())["z"] = x; }));
  EXPECT_TRUE(is_left([](auto& request, auto& x) {
    (*request.mutable_inputs())["z"] = x;
    request.mutable_inputs()->erase("x");
  }));
  EXPECT_TRUE(is_left([](auto&, auto& x) { x.clear_dtype(); }));
  EXPECT_TRUE(is_left([](auto&, auto& x) { x.set_dtype(muster::proto::DT_DOUBLE); }));
  EXPECT_TRUE(is_left([](auto&, auto& x) { x.clear_float_val(); }));
  EXPECT_TRUE(is_left([](auto&, auto& x) { x.add_float_val(3); }));
  EXPECT_TRUE(is_left([](auto&, auto& x) { x.add_double_val(3); }));
  EXPECT_TRUE(is_left([](auto&, auto& x) { x.add_string_val("a"); }));
  EXPECT_TRUE(is_left([](auto&, auto& x) { x.add_int_val(3); }));
  EXPECT_TRUE(is_left([](auto&, auto& x) { x.set_tensor_content("abc"); }));
  EXPECT_TRUE(is_left([](auto&, auto& x) { x.mutable_tensor_shape()->set_unknown_rank(true); }));
  EXPECT_TRUE(
      is_left([](auto&, auto& x) { x.mutable_tensor_shape()->mutable_dim(0)->set_name("n"); }));
  EXPECT_TRUE(
      is_left([](auto&, auto& x) { x.mutable_tensor_shape()->mutable_dim(0)->set_size(4); }));
  EXPECT_TRUE(
      is_left([](auto&, auto& x) { x.mutable_tensor_shape()->mutable_dim(0)->set_size(-1); }));
  for (const TensorValue& tensor : tensors_left_to_protobuf()) {
    EXPECT_FALSE(
        fast_tensors(request_with(tensor, false).SerializeAsString(), signature_of(tensor)));
  }
  const std::string bytes = request_with(two, false).SerializeAsString();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(fast_tensors(bytes.substr(0, size), signature));
  }
  // Duplicate fields: protobuf merges messages, and takes the last of two inputs of a name.
  EXPECT_FALSE(fast_tensors(bytes + bytes, signature));
}

TEST(FastPredict, RefusesMoreThanMayBeTaken) {
  const TensorValue two = TensorValue::vector<float>({1, 2});
  const std::string bytes = request_with(two, true).SerializeAsString();
  EXPECT_FALSE(FastPredict::parse(bytes)->tensors(signature_of(two), 7));
  EXPECT_TRUE(FastPredict::parse(bytes)->tensors(signature_of(two), 8));
}

TEST(PredictResponseWriter, WritesWhatProtobufReads) {
  const FakeService fake(1);
  const ModelVersionPtr version = const_cast<FakeService&>(fake).store().find("m");
  for (const bool raw : {false, true}) {
    PredictResponseWriter writer(*version, "serving_default", raw);
    auto all = tensors_of_every_kind();
    for (TensorValue& tensor : tensors_left_to_protobuf()) all.push_back(std::move(tensor));
    all.push_back(TensorValue{.dtype = DataType::kFloat, .shape = {0, 3}});
    for (std::size_t i = 0; i < all.size(); ++i) writer.add(std::to_string(i), all[i]);
    tfs::PredictResponse response;
    ASSERT_TRUE(response.ParseFromString(std::move(writer).bytes()));
    EXPECT_EQ(response.model_spec().name(), "m");
    EXPECT_EQ(response.model_spec().version().value(), 1);
    EXPECT_EQ(response.model_spec().signature_name(), "serving_default");
    ASSERT_EQ(static_cast<std::size_t>(response.outputs_size()), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      TensorProto wanted;
      write_tensor(all[i], raw, wanted);
      const TensorProto& written = response.outputs().at(std::to_string(i));
      EXPECT_EQ(tensor_of(written, "x", kFastRoom), all[i]);
      EXPECT_EQ(written.ShortDebugString(), wanted.ShortDebugString());
    }
  }
}

// Predict on bytes and on messages: the same answers and the same refusals.
class PredictOnBytes : public ::testing::Test {
 protected:
  PredictOnBytes() {
    request_.mutable_model_spec()->set_name("m");
    write_tensor(TensorValue::vector<float>({1, 2}), false, (*request_.mutable_inputs())["x"]);
  }

  std::string by_message() {
    const std::string bytes = request_.SerializeAsString() + kUnknownField;
    EXPECT_FALSE(FastPredict::parse(bytes));
    return outcome(bytes);
  }
  std::string by_bytes() { return outcome(request_.SerializeAsString()); }

  FakeService fake_;
  tfs::PredictRequest request_;

 private:
  std::string outcome(const std::string& bytes) {
    std::optional<tfs::PredictResponse> response;
    const std::string refusal = message_of([&] {
      const std::string answer = predict(fake_.service(), bytes, {}, {});
      response.emplace().ParseFromString(answer);
    });
    return response ? response->ShortDebugString() : refusal;
  }
};

TEST_F(PredictOnBytes, AnswersAndRefusesAsOnMessages) {
  const auto expect_same = [&](const char* part) {
    EXPECT_EQ(by_bytes(), by_message());
    EXPECT_THAT(by_bytes(), ::testing::HasSubstr(part));
  };
  expect_same("float_val: 3");
  request_.mutable_model_spec()->set_version_label("stable");
  expect_same("float_val: 2");
  request_.mutable_model_spec()->mutable_version()->set_value(9);
  expect_same("Servable not found for request: Specific(m, 9)");
  request_.mutable_model_spec()->clear_version_choice();
  request_.add_output_filter("y");
  expect_same("float_val: 3");
  request_.add_output_filter("y");
  expect_same("duplicate output tensor alias: y");
  request_.clear_output_filter();
  request_.add_output_filter("z");
  expect_same("output tensor alias not found in signature: z");
  request_.clear_output_filter();
  request_.mutable_model_spec()->set_signature_name("two");
  expect_same("input size does not match signature");
  request_.mutable_model_spec()->set_signature_name("none");
  expect_same("Serving signature key \"none\" not found.");
  request_.mutable_model_spec()->clear_signature_name();
  (*request_.mutable_inputs())["x"].mutable_tensor_shape()->mutable_dim(0)->set_size(3);
  expect_same("float_val: 4");  // The last value continues.
  (*request_.mutable_inputs())["x"].set_tensor_content("abc");
  expect_same("its bytes do not fill its shape");
  request_.clear_model_spec();
  expect_same("Missing ModelSpec");
}

TEST_F(PredictOnBytes, SaysThatBytesAreNoMessage) {
  for (const std::string& bytes :
       {std::string("\xFF"), request_.SerializeAsString() + "\x12\x7F"}) {
    try {
      predict(fake_.service(), bytes, {}, {});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInternal);
    }
  }
}

}  // namespace
}  // namespace muster::serving
