#include "muster/testing/webhdfs_emulator.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "muster/testing/data_dir.h"
#include "muster/testing/eventually.h"
#include "muster/testing/raw_tcp.h"

namespace muster::testing {
namespace {

std::optional<std::filesystem::path> emulator_program() {
  if (const char* given = std::getenv("MUSTER_WEBHDFS_EMULATOR")) return given;
  if (!data_dir()) return std::nullopt;
  const std::filesystem::path beside = *data_dir() / "../tools/webhdfs_emulator.py";
  return std::filesystem::exists(beside) ? std::optional(beside) : std::nullopt;
}

// One that has a free one behind it: namenode and datanode.
int free_pair_of_ports() {
  for (;;) {
    const std::string address = RawTcpServer().address();
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    if (port < 65'535) return port;
  }
}

bool is_listening(int port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is =
      ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(descriptor);
  return is;
}

}  // namespace

std::unique_ptr<WebHdfsEmulator> WebHdfsEmulator::start() {
  const auto program = emulator_program();
  if (!program) return nullptr;
  return std::unique_ptr<WebHdfsEmulator>(new WebHdfsEmulator(*program, free_pair_of_ports()));
}

WebHdfsEmulator::WebHdfsEmulator(const std::filesystem::path& program, int port)
    : url_(fmt::format("http://127.0.0.1:{}", port)),
      server_("/usr/bin/env",
              {"python3", program, "--port", std::to_string(port), "--root", files_.path()}) {
  EXPECT_TRUE(eventually([&] { return server_.ended() || is_listening(port); }));
  EXPECT_FALSE(server_.ended()) << server_.err();
}

}  // namespace muster::testing
