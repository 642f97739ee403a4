#include "muster/data/summary/machine_use.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster {
namespace {

std::map<std::string, double> read_by_name(MachineUse& machine) {
  const NamedValues values = machine.read();
  return {values.begin(), values.end()};
}

TEST(MachineUse, TellsTheProcessorsThatThisProcessTakes) {
  MachineUse machine;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
  volatile std::uint64_t work = 0;
  while (std::chrono::steady_clock::now() < end) work = work + 1;
  const auto busy = read_by_name(machine).at("machine/processors");
  EXPECT_GT(busy, 0);
  EXPECT_LE(busy, ::sysconf(_SC_NPROCESSORS_CONF) + 0.5);
}

TEST(MachineUse, TellsTheMemoryOfThisProcessAndOfItsHost) {
  MachineUse machine;
  const double before = read_by_name(machine).at("machine/memory_mib");
  const std::vector<char> held(64 << 20, 'x');
  const auto after = read_by_name(machine);
  EXPECT_GT(after.at("machine/memory_mib"), before + 60);
  EXPECT_GT(after.at("machine/host_memory_percent"), 0);
  EXPECT_LE(after.at("machine/host_memory_percent"), 100);
}

TEST(MachineUse, TellsRatesAndNoneThatIsNegative) {
  MachineUse machine;
  const auto values = read_by_name(machine);
  EXPECT_THAT(values, ::testing::Contains(::testing::Key("machine/network_sent_mib_per_second")));
  for (const auto& [name, value] : values) EXPECT_GE(value, 0) << name;
}

}  // namespace
}  // namespace muster
