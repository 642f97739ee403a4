#include "muster/distribution/wire/message_table_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "muster/base/error.h"
#include "muster/distribution/wire/message_samples_internal.h"
#include "muster/testing/message_of.h"

namespace muster::internal {
namespace {

using samples::body_of;
using samples::buffer_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MessageTable, EveryMessageArrivesAsItWasSent) {
  samples::for_each_message([]<typename Message>(std::type_identity<Message>) {
    const auto message = samples::sample<Message>();
    const EncodedMessage sent = encode(message);
    const auto received =
        decode<Message>(sent.header, buffer_of(body_of(sent)), samples::expected());
    const EncodedMessage again = encode(received);
    EXPECT_EQ(again.header, sent.header) << kKind<Message>.name;
    EXPECT_EQ(body_of(again), body_of(sent)) << kKind<Message>.name;
  });
}

TEST(MessageTable, EveryMessageKeepsWithinItsLimits) {
  samples::for_each_message([]<typename Message>(std::type_identity<Message>) {
    const auto message = samples::sample<Message>();
    const EncodedMessage sent = encode(message);
    const net::FrameLimits limits = message_limits(kKind<Message>.number);
    EXPECT_LE(sent.header.size(), limits.max_header) << kKind<Message>.name;
    EXPECT_LE(body_of(sent).size(), limits.max_body) << kKind<Message>.name;
  });
  EXPECT_EQ(message_limits(kKind<Ready>.number).max_header, 24U);
  EXPECT_EQ(message_limits(kKind<Heartbeat>.number).max_header, 0U);
  EXPECT_EQ(message_limits(kKind<Values>.number).max_body, kLargestBody);
  EXPECT_EQ(message_limits(kKind<Join>.number).max_body, 0U);
  EXPECT_EQ(message_limits(99).max_header, 0U);
}

TEST(MessageTable, NoMessageIsTakenThatIsCutOffOrLonger) {
  samples::for_each_message([]<typename Message>(std::type_identity<Message>) {
    const auto message = samples::sample<Message>();
    const EncodedMessage sent = encode(message);
    const std::string& header = sent.header;
    const std::string body = body_of(sent);
    const auto take = [](std::string_view some_header, std::string_view some_body) {
      decode<Message>(some_header, buffer_of(some_body), samples::expected());
    };
    EXPECT_THROW(take(header + "x", body), DataLoss) << kKind<Message>.name;
    for (std::size_t size = 0; size < header.size(); ++size) {
      EXPECT_THROW(take(header.substr(0, size), body), DataLoss) << kKind<Message>.name << size;
    }
    // Fields that take the whole body are checked by the code that knows how large they must be.
    if (sizes_of_fields<Message>().has_body && !body.empty() && body.size() % 64 == 0) {
      EXPECT_THROW(take(header, body.substr(0, body.size() / 2)), DataLoss) << kKind<Message>.name;
      EXPECT_THROW(take(header, body + "x"), DataLoss) << kKind<Message>.name;
    }
  });
}

TEST(MessageTable, ErrorsNameMessages) {
  EXPECT_EQ(describe_message(kKind<RunEnding>.number), "'run ending'");
  EXPECT_EQ(describe_message(99), "a message of type 99");
  std::set<std::string_view> names;
  for (const MessageKind& kind : kMessageKinds) names.insert(kind.name);
  EXPECT_EQ(names.size(), kMessageKinds.size());
}

template <typename Message>
std::string refusal_of(const Message& message,
                       const ExpectedTensors& expected = samples::expected()) {
  const EncodedMessage sent = encode(message);
  return testing::message_of(
      [&] { decode<Message>(sent.header, buffer_of(body_of(sent)), expected); });
}

TEST(StepGradients, OfOtherReplicasOrSizesAreRefused) {
  auto message = samples::sample<StepGradients>();
  message.sums[0].last = 1;
  message.replicas = {3, 5};
  EXPECT_THAT(refusal_of(message), HasSubstr("is about the replicas [3, 5) of 4"));
  message.replicas = {0, 3};
  EXPECT_THAT(refusal_of(message), HasSubstr("2 reports of 3 replicas"));
  message.replicas = {1, 3};
  EXPECT_THAT(refusal_of(message), HasSubstr("a sum over the replicas [0, 1)"));
  message.sums[0] = {.first = 1, .last = 3};
  EXPECT_THAT(refusal_of(message), HasSubstr("which is no part of 4"));
  ExpectedTensors others = samples::expected();
  others.flat_size = 1000;
  EXPECT_THAT(refusal_of(samples::sample<StepGradients>(), others), HasSubstr("holds less"));
  others = samples::expected();
  others.buffers.pop_back();
  EXPECT_THAT(refusal_of(samples::sample<StepGradients>(), others), HasSubstr("has 2 buffers"));
}

TEST(AsyncPush, WithRowsThatNoTableHasIsRefused) {
  auto push = samples::sample<AsyncPush>();
  RowGradient& rows = push.gradients->rows[0];
  rows.rows = at::arange(4, 7, at::kLong);
  EXPECT_THAT(refusal_of(push), HasSubstr("rows that a table with 6 does not have"));
  rows.rows = at::full({3}, 2, at::kLong);
  EXPECT_THAT(refusal_of(push), HasSubstr("out of order"));
  rows = {at::arange(0, 3, at::kLong), at::full({3, 3}, 1.0F)};
  EXPECT_THAT(refusal_of(push), HasSubstr("3 rows of 3 elements of a table with 6 of 2"));
}

TEST(GenerationPlan, WithMoreTrainersThanTasksIsRefused) {
  EXPECT_THAT(refusal_of(GenerationPlan{.number = 3, .members = {{}, {}}, .trainers = 3}),
              HasSubstr("generation 3 has 2 tasks, of which 3 train"));
}

}  // namespace
}  // namespace muster::internal
