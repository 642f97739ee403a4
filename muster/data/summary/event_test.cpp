#include "muster/data/summary/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/event.pb.h"

namespace muster {
namespace {

Event round_trip(const Event& event) { return decode_event(encode_event(event)); }

Event summary_event(SummaryValue value) {
  return {.wall_time = 1.5, .step = 7, .what = Summary{std::move(value)}};
}

// Put together by hand from the field numbers of the format:
// Event{wall_time 1 = 2.0, step 2 = 300, summary 5 = {value 1 = {tag 1 = "loss",
// simple_value 2 = 0.5}}}.
TEST(Event, AScalarHasTheBytesOfTheFormat) {
  const std::string value = std::string("\x0a\x04") + "loss" + std::string("\x15\0\0\0\x3f", 5);
  const std::string summary = std::string("\x0a\x0b") + value;
  const std::string wanted =
      std::string("\x09\0\0\0\0\0\0\0\x40", 9) + "\x10\xac\x02" + std::string("\x2a\x0d") + summary;
  const Event event{.wall_time = 2.0, .step = 300, .what = Summary{{.tag = "loss", .data = 0.5F}}};
  EXPECT_EQ(encode_event(event), wanted);
  EXPECT_EQ(decode_event(wanted), event);
}

TEST(Event, TheFirstEventOfAFileHasTheBytesOfTheFormat) {
  const Event event{.wall_time = 2.0, .what = FileVersion{std::string(kEventFileVersion)}};
  EXPECT_EQ(encode_event(event),
            std::string("\x09\0\0\0\0\0\0\0\x40\x1a\x0d", 11) + "brain.Event:2");
}

TEST(Event, EveryKindComesBackAsItWas) {
  const HistogramData histogram{.min = -1,
                                .max = 2,
                                .num = 3,
                                .sum = 2.5,
                                .sum_squares = 5.25,
                                .limits = {0, 1e-12, 3},
                                .counts = {1, 0, 2}};
  for (const SummaryValue& value : std::vector<SummaryValue>{
           {.tag = "scalar", .data = 0.25F},
           {.tag = "histogram", .data = histogram},
           {.tag = "image", .data = ImageData{{4, 5, 3}, "png bytes"}},
           {.tag = "floats", .data = NumberTensor{NumberTensor::Type::kFloat, {2, 1}, {1, 0.5}}},
           {.tag = "doubles", .data = NumberTensor{NumberTensor::Type::kDouble, {1}, {0.1}}},
           {.tag = "ints", .data = NumberTensor{NumberTensor::Type::kInt64, {}, {-3}}},
           {.tag = "strings", .data = StringTensor{{2}, {"a", std::string("b\0c", 3)}}},
           {.tag = "p", .data = 1.0F, .plugin = "page", .plugin_content = "content"},
           text_summary("text", "**bold**")}) {
    SCOPED_TRACE(value.tag);
    EXPECT_EQ(round_trip(summary_event(value)), summary_event(value));
  }
  for (const Event& event : std::vector<Event>{
           {.wall_time = 1, .step = -1, .what = GraphBytes{"graph"}},
           {.wall_time = 1,
           .step = 5,
           .what = SessionMark{SessionMark::Status::kCheckpoint, "model.ckpt-5", "m"}}}) {
    EXPECT_EQ(round_trip(event), event);
  }
}

TEST(Event, TextGoesToTheTextPage) {
  proto::Event event;
  ASSERT_TRUE(event.ParseFromString(encode_event(summary_event(text_summary("note", "hello")))));
  const auto& value = event.summary().value(0);
  EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "text");
  EXPECT_EQ(value.metadata().data_class(), proto::DATA_CLASS_TENSOR);
  EXPECT_EQ(value.tensor().dtype(), proto::DT_STRING);
  EXPECT_EQ(value.tensor().string_val(0), "hello");
  EXPECT_EQ(value.tensor().tensor_shape().dim_size(), 0);
}

TEST(Event, ScalarsOfNewerWritersAreTensors) {
  proto::Event event;
  auto& value = *event.mutable_summary()->add_value();
  value.set_tag("accuracy");
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("scalars");
  value.mutable_tensor()->set_dtype(proto::DT_FLOAT);
  value.mutable_tensor()->add_float_val(0.75F);
  const Event decoded = decode_event(event.SerializeAsString());
  const auto& summary = std::get<Summary>(decoded.what);
  EXPECT_EQ(scalar_of(summary.at(0)), 0.75);
  EXPECT_EQ(scalar_of({.tag = "s", .data = 0.5F}), 0.5);
  EXPECT_EQ(scalar_of(text_summary("t", "1")), std::nullopt);
}

// A few bytes may claim a tensor of any size; no memory is taken for it.
TEST(Event, ATensorIsNotExpandedToItsShape) {
  proto::Event event;
  auto& tensor = *event.mutable_summary()->add_value()->mutable_tensor();
  tensor.set_dtype(proto::DT_FLOAT);
  tensor.mutable_tensor_shape()->add_dim()->set_size(std::int64_t{1} << 60);
  tensor.add_float_val(1);
  const Event decoded = decode_event(event.SerializeAsString());
  const auto& value = std::get<Summary>(decoded.what).at(0);
  EXPECT_EQ(std::get<NumberTensor>(value.data).values, std::vector<double>{1});
}

TEST(Event, BadBytesAreDataLoss) {
  EXPECT_THROW(decode_event("\xff\xff\xff"), DataLoss);
  proto::Event event;
  auto& tensor = *event.mutable_summary()->add_value()->mutable_tensor();
  tensor.set_dtype(proto::DT_DOUBLE);
  tensor.set_tensor_content("12345");
  EXPECT_THROW(decode_event(event.SerializeAsString()), DataLoss);
  event.Clear();
  event.mutable_summary()->add_value()->mutable_histo()->add_bucket(1);
  EXPECT_THROW(decode_event(event.SerializeAsString()), DataLoss);
}

TEST(Event, AShapeThatDoesNotFitIsRefused) {
  const auto encode = [](std::vector<std::int64_t> shape) {
    return encode_event(summary_event({.tag = "t", .data = NumberTensor{{}, shape, {1, 2}}}));
  };
  EXPECT_NO_THROW(encode({2}));
  EXPECT_THROW(encode({3}), InvalidArgument);
  EXPECT_THROW(encode({-1, -2}), InvalidArgument);
  EXPECT_THROW(encode({std::int64_t{1} << 40, std::int64_t{1} << 40}), InvalidArgument);
}

}  // namespace
}  // namespace muster
