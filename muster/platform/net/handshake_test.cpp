#include "muster/platform/net/handshake_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster::net {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using ::testing::StartsWith;

const Identity kHandshakeServer{.task = "ps:0", .run_id = "run-a", .secret = "open sesame"};
const Identity kHandshakeClient{.task = "worker:1", .run_id = "run-a", .secret = "open sesame"};

/// Hands bytes over as a socket would: never more than are wanted. Gives the answers.
template <typename Side>
std::string feed(Side& side, std::string_view bytes) {
  std::string answers;
  while (!bytes.empty() && side.wanted() > 0) {
    const auto part = bytes.substr(0, side.wanted());
    bytes.remove_prefix(part.size());
    answers += side.take(part);
  }
  return answers;
}

/// All four messages, as far as the two get.
void shake_hands(ClientHandshake& client, ServerHandshake& server) {
  std::string to_server = client.hello();
  while (!to_server.empty()) to_server = feed(client, feed(server, to_server));
}

TEST(Handshake, TwoTasksOfARunAcceptEachOther) {
  ClientHandshake client(kHandshakeClient, "push", "ps:0");
  ServerHandshake server(kHandshakeServer);
  shake_hands(client, server);
  EXPECT_TRUE(client.proved());
  EXPECT_TRUE(server.proved());
  EXPECT_EQ(client.peer_task(), "ps:0");
  EXPECT_EQ(server.peer_task(), "worker:1");
  EXPECT_EQ(server.purpose(), "push");
  EXPECT_EQ(client.wanted(), 0u);
  EXPECT_EQ(server.wanted(), 0u);
}

TEST(Handshake, BytesMayComeOneByOne) {
  ClientHandshake client(kHandshakeClient, "push", "");
  ServerHandshake server(kHandshakeServer);
  std::string to_server = client.hello();
  std::string to_client;
  while (!to_server.empty() || !to_client.empty()) {
    std::string from_server;
    for (const char byte : std::exchange(to_server, {})) from_server += server.take({&byte, 1});
    to_client += from_server;
    for (const char byte : std::exchange(to_client, {})) to_server += client.take({&byte, 1});
  }
  EXPECT_TRUE(client.proved());
  EXPECT_TRUE(server.proved());
}

TEST(Handshake, NeitherSideSendsTheSecret) {
  ClientHandshake client(kHandshakeClient, "push", "");
  ServerHandshake server(kHandshakeServer);
  const std::string challenge = feed(server, client.hello());
  const std::string proof = feed(client, challenge);
  const std::string welcome = feed(server, proof);
  EXPECT_EQ((client.hello() + challenge + proof + welcome).find("sesame"), std::string::npos);
}

TEST(Handshake, AnotherRunIsRefusedByBothWithBothNames) {
  Identity other = kHandshakeServer;
  other.run_id = "run-b";
  ClientHandshake client(kHandshakeClient, "push", "");
  ServerHandshake server(other);
  shake_hands(client, server);
  EXPECT_EQ(server.refusal(), Refusal::kWrongRun);
  EXPECT_EQ(server.reason(), "worker:1 is of run run-a, this is run run-b");
  EXPECT_EQ(client.refusal(), Refusal::kWrongRun);
  EXPECT_THAT(client.reason(), StartsWith("is ps:0 of run run-b, this is run run-a"));
  EXPECT_FALSE(client.proved() || server.proved());
}

TEST(Handshake, AnotherTaskAtTheAddressIsRefusedByName) {
  ClientHandshake client(kHandshakeClient, "push", "ps:1");
  ServerHandshake server(kHandshakeServer);
  shake_hands(client, server);
  EXPECT_EQ(server.refusal(), Refusal::kWrongTask);
  EXPECT_EQ(client.refusal(), Refusal::kWrongTask);
  EXPECT_THAT(client.reason(), StartsWith("is ps:0 and not ps:1"));
}

TEST(Handshake, AnotherSecretIsRefusedByTheServer) {
  for (const std::string secret : {"open barley", ""}) {
    Identity other = kHandshakeClient;
    other.secret = secret;
    ClientHandshake client(other, "push", "");
    ServerHandshake server(kHandshakeServer);
    shake_hands(client, server);
    EXPECT_EQ(server.refusal(), Refusal::kWrongSecret);
    EXPECT_THAT(server.reason(), StartsWith("it has another secret"));
    EXPECT_EQ(client.refusal(), Refusal::kWrongSecret);
    EXPECT_THAT(client.reason(), StartsWith("has another secret"));
  }
}

/// Neither a client nor a server that does not know the secret learns names.
TEST(Handshake, NoNamesAreSentBeforeBothHaveProvedThemselves) {
  const auto names_in = [](const std::string& bytes) {
    return bytes.find("ps:0") != std::string::npos || bytes.find("worker:1") != std::string::npos ||
           bytes.find("run-a") != std::string::npos || bytes.find("push") != std::string::npos;
  };
  ClientHandshake client(kHandshakeClient, "push", "ps:0");
  ServerHandshake server(kHandshakeServer);
  const std::string challenge = feed(server, client.hello());
  const std::string proof = feed(client, challenge);
  const std::string welcome = feed(server, proof);
  EXPECT_FALSE(names_in(client.hello() + challenge + proof + welcome));
  EXPECT_TRUE(names_in(feed(client, welcome)));
  Identity stranger = kHandshakeClient;
  stranger.secret = "a guess";
  ClientHandshake guesses(stranger, "push", "ps:0");
  ServerHandshake asked(kHandshakeServer);
  EXPECT_FALSE(names_in(feed(asked, feed(guesses, feed(asked, guesses.hello())))));
  EXPECT_EQ(asked.refusal(), Refusal::kWrongSecret);
}

TEST(Handshake, ATaskThatTheClusterDoesNotHaveIsRefused) {
  ClientHandshake client(kHandshakeClient, "push", "ps:0");
  ServerHandshake server(kHandshakeServer,
                         [](std::string_view task) { return task != "worker:1"; });
  shake_hands(client, server);
  EXPECT_EQ(server.refusal(), Refusal::kWrongCluster);
  EXPECT_EQ(client.refusal(), Refusal::kWrongCluster);
  EXPECT_FALSE(client.proved() || server.proved());
}

/// A server that says yes to everybody.
TEST(Handshake, AServerThatDoesNotKnowTheSecretIsNotTrusted) {
  ClientHandshake client(kHandshakeClient, "push", "");
  Identity stranger = kHandshakeServer;
  stranger.secret = "a guess";
  ServerHandshake server(stranger);
  std::string welcome = feed(server, feed(client, feed(server, client.hello())));
  ASSERT_EQ(server.refusal(), Refusal::kWrongSecret);
  welcome[12] = 0;  // The verdict: welcome.
  feed(client, welcome);
  EXPECT_FALSE(client.proved());
  EXPECT_EQ(client.refusal(), Refusal::kWrongSecret);
  EXPECT_THAT(client.reason(), HasSubstr("does not know the secret"));
}

/// A server without the secret could send the client's own proof back.
TEST(Handshake, AClientsProofIsNoServersProof) {
  ClientHandshake client(kHandshakeClient, "push", "");
  ServerHandshake server(kHandshakeServer);
  const std::string proof = feed(client, feed(server, client.hello()));
  std::string welcome = feed(server, proof);
  welcome.replace(13, 32, proof.substr(12));
  feed(client, welcome);
  EXPECT_FALSE(client.proved());
}

TEST(Handshake, ARecordedClientIsOfNoUseAgain) {
  ClientHandshake client(kHandshakeClient, "push", "");
  ServerHandshake server(kHandshakeServer);
  const std::string proof = feed(client, feed(server, client.hello()));
  const std::string names = feed(client, feed(server, proof));
  feed(server, names);
  ASSERT_TRUE(server.proved());
  ServerHandshake later(kHandshakeServer);
  feed(later, client.hello());
  feed(later, proof + names);
  EXPECT_FALSE(later.proved());
  EXPECT_EQ(later.refusal(), Refusal::kWrongSecret);
}

Refusal refusal_of(std::string_view bytes) {
  ServerHandshake server(kHandshakeServer);
  feed(server, bytes);
  return server.refusal();
}

TEST(Handshake, StrangersAreToldApart) {
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\n\r\n"), Refusal::kHttp);
  EXPECT_EQ(refusal_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Refusal::kHttp);
  EXPECT_EQ(refusal_of("\x16\x03\x01\x02\x01\x01\x01\xfc\x03\x03\x01\x01"), Refusal::kTls);
  EXPECT_EQ(refusal_of("MUSTER/1\x01\x01\x01\x01"), Refusal::kOtherVersion);
  EXPECT_EQ(refusal_of("\x01"), Refusal::kNoise);
  EXPECT_EQ(refusal_of("MUSTER/7\x07\x01\x01\x01"), Refusal::kNoise);
  EXPECT_EQ(refusal_of("MUST"), Refusal::kNone);
}

TEST(Handshake, TellsAWebBrowserNothingOfTheRun) {
  ServerHandshake server(kHandshakeServer);
  const std::string answer = feed(server, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_EQ(answer.find("ps:0"), std::string::npos);
}

/// A task's name that would look like a line of the log.
TEST(Handshake, NamesWithControlCharactersAreRefused) {
  ClientHandshake client(kHandshakeClient, "push", "");
  ServerHandshake server(kHandshakeServer);
  std::string names = feed(client, feed(server, feed(client, feed(server, client.hello()))));
  const auto at = names.find("worker:1");
  ASSERT_NE(at, std::string::npos);
  names[at + 3] = '\n';
  feed(server, names);
  EXPECT_EQ(server.refusal(), Refusal::kNoise);
  Identity wrong = kHandshakeClient;
  wrong.task = "worker\n1";
  EXPECT_THROW(check(wrong), InvalidArgument);
  wrong.task = "";
  EXPECT_THAT(message_of([&] { check(wrong); }), HasSubstr("the task must have"));
}

}  // namespace
}  // namespace muster::net
