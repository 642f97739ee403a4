#include "muster/base/control_group.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A /proc/self and control groups in a folder.
class ControlGroupTest : public ::testing::Test {
 protected:
  void write(const Path& path, const std::string& text) const {
    std::filesystem::create_directories((root() / path).parent_path());
    std::ofstream(root() / path) << text;
  }
  // Also another mount, which is none of control groups.
  void mount(const std::string& groups, const std::string& mounts) const {
    write("cgroup", groups);
    write("mountinfo", "22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw\n" + mounts);
  }
  std::string mount_line(const std::string& shown, const Path& point,
                         const std::string& type) const {
    return fmt::format("31 23 0:28 {} {} rw,relatime shared:9 master:1 - {}\n", shown,
                       (root() / point).string(), type);
  }
  const Path& root() const { return folder_.path(); }

 private:
  testing::TempDir folder_{};
};

TEST_F(ControlGroupTest, TheSmallestQuotaAroundTheProcessCounts) {
  mount("0::/batch/job 7/step\n", mount_line("/", "fs", "cgroup2 cgroup2 rw"));
  write("fs/batch/job 7/step/cpu.max", "max 100000\n");
  write("fs/batch/job 7/cpu.max", "250000 100000\n");
  write("fs/batch/cpu.max", "1600000 100000\n");
  write("fs/batch/job 7/memory.max", "4096\n");
  write("fs/batch/memory.max", "max\n");
  EXPECT_THAT(control_group_folders("cpu", root()),
              ElementsAre(root() / "fs/batch/job 7/step", root() / "fs/batch/job 7",
                          root() / "fs/batch", root() / "fs"));
  EXPECT_EQ(processor_quota(root()), 2.5);
  EXPECT_EQ(memory_limit(root()), 4096U);
}

TEST_F(ControlGroupTest, VersionOneHasAQuotaAndAPeriodInFilesOfTheirOwn) {
  mount("5:memory:/a\n4:cpu,cpuacct:/b\n0::/\n",
        mount_line("/", "memory", "cgroup cgroup rw,memory") +
            mount_line("/", "cpu", "cgroup cgroup rw,cpu,cpuacct") +
            mount_line("/", "unified", "cgroup2 cgroup2 rw"));
  write("cpu/b/cpu.cfs_quota_us", "50000\n");
  write("cpu/b/cpu.cfs_period_us", "100000\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  write("memory/a/memory.limit_in_bytes", "8192\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(processor_quota(root()), 0.5);
  EXPECT_EQ(memory_limit(root()), 8192U);
}

TEST_F(ControlGroupTest, AContainerMaySeeItsOwnGroupAsTheMount) {
  const std::string point = mount_line("/kubepods/pod1", "fs", "cgroup2 cgroup2 rw");
  write("fs/cpu.max", "300000 100000\n");
  write("fs/inner/cpu.max", "200000 100000\n");
  for (const auto& [group, quota] :
       {std::pair("/kubepods/pod1", 3.0), std::pair("/kubepods/pod1/inner", 2.0),
        std::pair("/elsewhere", 3.0), std::pair("/../pod2", 3.0), std::pair("/kubepods", 3.0)}) {
    mount(fmt::format("0::{}\n", group), point);
    EXPECT_EQ(processor_quota(root()), quota) << group;
  }
}

TEST_F(ControlGroupTest, WhatCannotBeReadIsNoLimit) {
  EXPECT_THAT(control_group_folders("cpu", root() / "none"), IsEmpty());
  mount("0::/\n", mount_line("/", "fs", "cgroup2 cgroup2 rw") + "short line -\n- - - -\n");
  for (const char* wrong : {"", "max 100000", "100000", "0 100000", "x y", "100000 0", "-1 5"}) {
    write("fs/cpu.max", wrong);
    EXPECT_FALSE(processor_quota(root())) << wrong;
  }
  EXPECT_FALSE(memory_limit(root()));
}

}  // namespace
}  // namespace muster
