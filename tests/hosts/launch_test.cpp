// `muster launch` with a list of hosts, by ssh to hosts that are apart.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/testing/eventually.h"
#include "muster/testing/hosts/hosts.h"
#include "muster/testing/words.h"
#include "tests/hash_alone.h"
#include "tests/latest_hash.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::Hosts;
using testing::Link;
using testing::RunningProgram;
using testing::Words;
using testing::operator+;

// All hosts are one machine, whose processes they share.
constexpr const char* kSshServer = "/usr/sbin/sshd";

/// Hosts with a server of ssh each, which all take one key.
class HostsWithSsh {
 public:
  explicit HostsWithSsh(std::size_t count, const Link& link = {}) : hosts(count, link) {
    make_key("host_key");
    make_key("user_key");
    std::filesystem::rename(folder_ / "user_key.pub", folder_ / "authorized_keys");
    testing::write_bytes(
        folder_ / "sshd_config",
        fmt::format("HostKey {0}/host_key\nAuthorizedKeysFile {0}/authorized_keys\n"
                    "PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n",
                    folder_.path().string()));
    for (std::size_t host = 0; host < count; ++host) serve(host);
  }

  /// For --hosts.
  std::string list() const {
    std::string names;
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      names += (host == 0 ? "" : ",") + Hosts::name(host);
    }
    return names;
  }
  /// For --ssh.
  std::string ssh() const {
    return fmt::format(
        "ssh -F none -i {0}/user_key -o StrictHostKeyChecking=no -o UserKnownHostsFile={0}/known "
        "-o LogLevel=ERROR",
        folder_.path().string());
  }

  Hosts hosts;

 private:
  void make_key(const char* name) const {
    const auto made = testing::run_program(
        "/usr/bin/ssh-keygen", {"-q", "-t", "ed25519", "-N", "", "-f", (folder_ / name).string()});
    if (made.status != 0) throw Internal("ssh-keygen: {}", made.err);
  }

  void serve(std::size_t host) {
    hosts.space(host).run([] {
      // The folder that sshd wants to be there, of this host alone.
      if (::mount("none", "/run", "tmpfs", 0, nullptr) != 0) throw_errno(errno, "mounting /run");
      if (::mkdir("/run/sshd", 0755) != 0) throw_errno(errno, "making /run/sshd");
    });
    servers_.push_back(
        hosts.start(host, kSshServer, {"-D", "-e", "-f", (folder_ / "sshd_config").string()}));
    testing::eventually([&] {
      return servers_.back()->err().find("Server listening on 0.0.0.0") != std::string::npos;
    });
  }

  testing::TempDir folder_;
  std::vector<std::unique_ptr<RunningProgram>> servers_;
};

class LaunchOverSsh : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto refusal = testing::NameSpace::refusal()) GTEST_SKIP() << *refusal;
    if (::access(kSshServer, X_OK) != 0) GTEST_SKIP() << kSshServer << " is not installed";
  }

  Words launch_words(const HostsWithSsh& hosts, const Words& cluster, const Words& flags) const {
    return Words{"launch",    "--chief",   "--hosts",       hosts.list(),       "--ssh",
                 hosts.ssh(), "--log-dir", logs().string(), "--no-training-log"} +
           cluster + Words{"--", CLUSTER_JOB, "--model-dir", model_dir().string()} + flags;
  }
  std::filesystem::path model_dir() const { return folder_ / "model"; }
  std::filesystem::path logs() const { return folder_ / "logs"; }
  std::string log_of(const char* task) const {
    const auto file = logs() / (std::string(task) + ".log");
    return std::filesystem::exists(file) ? testing::read_bytes(file) : "";
  }

  testing::TempDir folder_;
};

const Words kTrained{"--replicas", "3", "--steps", "30", "--save-steps", "5"};

// Started on the first host; the task of the other one is killed there.
TEST_F(LaunchOverSsh, ATaskThatIsKilledOnItsHostIsStartedAgainAndTheWeightsAreThoseOfOneProcess) {
  HostsWithSsh hosts(2, {.delay = milliseconds(1)});
  const auto launcher = hosts.hosts.start(
      0, MUSTER_PROGRAM,
      launch_words(hosts, {"--workers", "1", "--ps", "0", "--restart", "on-failure"},
                   kTrained + Words{"--step-ms", "20"}));
  ASSERT_TRUE(testing::eventually([&] { return latest_checkpoint(model_dir()).has_value(); }))
      << launcher->err();
  const auto killed = hosts.hosts.run(1, "/bin/sh",
                                      {"-c", R"sh(
    for process in $(grep -l -a '"type":"worker","index":0' /proc/[0-9]*/environ 2>/dev/null); do
      folder=${process%/environ}
      [ "$(cat "$folder/comm")" != cluster_job ] || ! grep -q -a -- "$1" "$folder/cmdline" ||
        kill -KILL "$(basename "$folder")"
    done)sh",
                                       "sh", model_dir().string()});
  EXPECT_EQ(killed.status, 0) << killed.err;
  const auto outcome = launcher->wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("worker:0 failed status=137: restart 1 of 3"));
  EXPECT_THAT(log_of("chief"), HasSubstr("host-1:"));
  EXPECT_EQ(hash_of(model_dir()), hash_alone(kTrained));
}

}  // namespace
}  // namespace muster
