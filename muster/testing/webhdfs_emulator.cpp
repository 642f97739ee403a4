#include "muster/testing/webhdfs_emulator.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

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

int free_port() {
  const std::string address = RawTcpServer().address();
  return std::stoi(address.substr(address.rfind(':') + 1));
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
  // Its datanode takes the next port, which may not be free.
  for (int tries = 1; tries < 20; ++tries) {
    std::unique_ptr<WebHdfsEmulator> emulator(new WebHdfsEmulator(*program, free_port()));
    if (!emulator->server_.ended()) return emulator;
  }
  throw std::runtime_error("no two ports side by side are free for the WebHDFS emulator");
}

WebHdfsEmulator::WebHdfsEmulator(const std::filesystem::path& program, int port)
    : url_(fmt::format("http://127.0.0.1:{}", port)),
      server_("/usr/bin/env",
              {"python3", program, "--port", std::to_string(port), "--root", files_.path()}) {
  EXPECT_TRUE(eventually(
      [&] { return server_.ended() || (is_listening(port) && is_listening(port + 1)); }));
}

}  // namespace muster::testing
