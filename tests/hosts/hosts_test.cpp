// Hosts that are apart, as tests have them: addresses, links and names of their own.
#include "muster/testing/hosts/hosts.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "muster/base/error.h"

namespace muster {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::Hosts;
using testing::NameSpace;

using Clock = std::chrono::steady_clock;

sockaddr_in address_by_name(const std::string& name, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) throw NotFound("no {}", name);
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof address);
  ::freeaddrinfo(found);
  address.sin_port = htons(port);
  return address;
}

/// A UDP socket of a host.
class Datagrams {
 public:
  Datagrams(const Hosts& hosts, std::size_t host) : hosts_(hosts), host_(host) {
    hosts.space(host).run([&] {
      socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      if (socket_ < 0) throw_errno(errno, "making a socket");
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(kPort);
      if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        throw_errno(errno, "binding a socket");
      }
    });
  }
  ~Datagrams() { ::close(socket_); }
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  void send_to(std::size_t host, const std::string& bytes) {
    hosts_.space(host_).run([&] {
      const sockaddr_in to = address_by_name(Hosts::name(host), kPort);
      ::sendto(socket_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to),
               sizeof to);
    });
  }
  /// Bytes of the next one, or nothing within the time.
  std::string receive(milliseconds patience) {
    pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, static_cast<int>(patience.count())) != 1) return "";
    std::array<char, 2000> bytes{};
    const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
  }

 private:
  static constexpr std::uint16_t kPort = 4000;
  const Hosts& hosts_;
  std::size_t host_;
  int socket_ = -1;
};

constexpr milliseconds kLongEnough{20'000};

class HostsThatAreApart : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto refusal = NameSpace::refusal()) GTEST_SKIP() << *refusal;
  }
};

TEST_F(HostsThatAreApart, HaveNamesAndAddressesOfTheirOwn) {
  const Hosts hosts(3);
  EXPECT_NE(hosts.address(0), hosts.address(1));
  EXPECT_EQ(hosts.run(2, "/bin/hostname", {}).out, "host-2\n");
  Datagrams first(hosts, 0);
  Datagrams third(hosts, 2);
  first.send_to(2, "hello");
  EXPECT_EQ(third.receive(kLongEnough), "hello");
}

TEST_F(HostsThatAreApart, HearNothingOfOneThatIsDisconnectedUntilItIsBack) {
  for (const microseconds delay : {microseconds(0), microseconds(100)}) {
    Hosts hosts(2, {.delay = delay});
    Datagrams first(hosts, 0);
    Datagrams second(hosts, 1);
    // Once they know each other: what looks for the other's address would wait for the answer.
    first.send_to(1, "hello");
    EXPECT_EQ(second.receive(kLongEnough), "hello");
    hosts.set_connected(1, false);
    first.send_to(1, "lost");
    EXPECT_EQ(second.receive(milliseconds(50)), "");
    hosts.set_connected(1, true);
    first.send_to(1, "found");
    EXPECT_EQ(second.receive(kLongEnough), "found");
  }
}

TEST_F(HostsThatAreApart, FindOneThatHasMovedByItsName) {
  for (const microseconds delay : {microseconds(0), microseconds(100)}) {
    Hosts hosts(2, {.delay = delay});
    Datagrams first(hosts, 0);
    Datagrams second(hosts, 1);
    const std::string before = hosts.address(1);
    hosts.move(1);
    EXPECT_NE(hosts.address(1), before);
    first.send_to(1, "hello");
    EXPECT_EQ(second.receive(kLongEnough), "hello");
  }
}

TEST_F(HostsThatAreApart, AreAsFarFromEachOtherAsTheLinkSays) {
  const Hosts hosts(2, {.delay = milliseconds(30)});
  Datagrams first(hosts, 0);
  Datagrams second(hosts, 1);
  const auto start = Clock::now();
  first.send_to(1, "hello");
  EXPECT_EQ(second.receive(kLongEnough), "hello");
  EXPECT_GE(Clock::now() - start, milliseconds(30));
}

TEST_F(HostsThatAreApart, LoseAsManyPacketsAsTheLinkSaysAndOthersWithAnotherSeed) {
  const auto received = [](std::uint64_t seed) {
    const Hosts hosts(2, {.loss = 0.5, .seed = seed});
    Datagrams first(hosts, 0);
    Datagrams second(hosts, 1);
    std::string letters;
    for (char letter = 'a'; letter <= 'z'; ++letter) first.send_to(1, std::string(1, letter));
    for (std::string one; !(one = second.receive(milliseconds(100))).empty();) letters += one;
    EXPECT_GE(hosts.lost(), 26 - static_cast<std::int64_t>(letters.size()));
    return letters;
  };
  const std::string letters = received(1);
  EXPECT_GT(letters.size(), 3U);
  EXPECT_LT(letters.size(), 23U);
  EXPECT_NE(received(2), letters);
}

}  // namespace
}  // namespace muster
