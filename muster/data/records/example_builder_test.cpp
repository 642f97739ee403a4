#include "muster/data/records/example_builder.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <limits>

#include "muster/base/error.h"
#include "muster/example.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

std::string deterministic_bytes(const google::protobuf::Message& message) {
  std::string out;
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    EXPECT_TRUE(message.SerializeToCodedStream(&coded));
  }  // which hands the last bytes to `out`
  return out;
}

TEST(ExampleBuilder, WritesTheBytesThatProtobufWritesDeterministically) {
  proto::Example message;
  auto& features = *message.mutable_features()->mutable_feature();
  features["label"].mutable_int64_list()->add_value(-7);
  features["label"].mutable_int64_list()->add_value(std::numeric_limits<std::int64_t>::max());
  features["image"].mutable_bytes_list()->add_value(std::string(3072, '\xAB'));
  features["image"].mutable_bytes_list()->add_value("");
  features["weights"].mutable_float_list()->add_value(0.5F);
  features["weights"].mutable_float_list()->add_value(-1e30F);
  features["nothing"].mutable_int64_list();

  const std::string built = ExampleBuilder()
                                .add_floats("weights", std::vector<float>{0.5F, -1e30F})
                                .add_int("label", -7)
                                .add_int("label", std::numeric_limits<std::int64_t>::max())
                                .add_ints("nothing", {})
                                .add_bytes("image", std::string(3072, '\xAB'))
                                .add_bytes("image", "")
                                .serialize();

  EXPECT_EQ(built, deterministic_bytes(message));
}

TEST(ExampleBuilder, GivesTheSameBytesInAnyOrderOfCalls) {
  EXPECT_EQ(ExampleBuilder().add_int("a", 1).add_float("b", 2).serialize(),
            ExampleBuilder().add_float("b", 2).add_int("a", 1).serialize());
}

TEST(ExampleBuilder, AppendsToABufferThatIsUsedAgain) {
  std::string buffer = "kept";
  const auto builder = ExampleBuilder().add_int("a", 1);
  builder.serialize_to(buffer);
  EXPECT_EQ(buffer, "kept" + builder.serialize());
}

TEST(ExampleBuilder, StartsAnewAfterClear) {
  ExampleBuilder builder;
  builder.add_int("a", 1).clear();
  EXPECT_TRUE(builder.empty());
  EXPECT_EQ(builder.add_float("a", 1).serialize(), ExampleBuilder().add_float("a", 1).serialize());
}

TEST(ExampleBuilder, RefusesValuesOfAnotherKindUnderOneKey) {
  ExampleBuilder builder;
  builder.add_int("label", 1);
  EXPECT_THROW(builder.add_float("label", 1), InvalidArgument);
}

TEST(SequenceExampleBuilder, WritesWhatProtobufReads) {
  SequenceExampleBuilder builder;
  builder.context().add_int("length", 2);
  builder.add_step("words", std::vector<std::string_view>{"to", "be"})
      .add_step("words", std::vector<std::string_view>{})
      .add_step("scores", std::vector<float>{1.5F})
      .add_step("ids", std::vector<std::int64_t>{3, 300});

  proto::SequenceExample message;
  const std::string bytes = builder.serialize();
  ASSERT_TRUE(message.ParseFromString(bytes));
  EXPECT_EQ(bytes, deterministic_bytes(message));
  EXPECT_THAT(message.context().feature().at("length").int64_list().value(), ElementsAre(2));
  const auto& lists = message.feature_lists().feature_list();
  ASSERT_EQ(lists.at("words").feature_size(), 2);
  EXPECT_THAT(lists.at("words").feature(0).bytes_list().value(), ElementsAre("to", "be"));
  EXPECT_TRUE(lists.at("words").feature(1).has_bytes_list());
  EXPECT_THAT(lists.at("scores").feature(0).float_list().value(), ElementsAre(1.5F));
  EXPECT_THAT(lists.at("ids").feature(0).int64_list().value(), ElementsAre(3, 300));
}

}  // namespace
}  // namespace muster
