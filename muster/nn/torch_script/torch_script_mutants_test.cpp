// Damaged TorchScript files whose checksums are right, loaded in limited child processes: libtorch
// reads what an archive holds, and may end the process that does.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/data/records/zip_archive.h"
#include "muster/nn/torch_script/torch_script_file.h"
#include "muster/nn/torch_script/torch_script_program.h"
#include "muster/testing/forked.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

// How a child ends.
constexpr int kLoaded = 0;
constexpr int kRefused = 3;
constexpr int kWithoutName = 4;
constexpr int kKilled = 128;

std::uint32_t checksum_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

// Puts a record's checksum where the directory of the archive has it.
void write_checksum(std::string& archive, const std::string& record, std::uint32_t checksum) {
  constexpr std::size_t kName = 46;
  constexpr std::size_t kChecksum = 16;
  for (auto at = archive.find("PK\1\2"); at != archive.npos; at = archive.find("PK\1\2", at + 4)) {
    if (archive.compare(at + kName, record.size(), record) != 0) continue;
    std::memcpy(archive.data() + at + kChecksum, &checksum, sizeof checksum);
  }
}

// Changes bytes of one record, as a damaged disk would not: its checksum fits again.
std::string mutant_of(const std::string& archive, Random& random) {
  const ZipArchive zip(archive, "seed");
  std::string mutant = archive;
  // Code and pickles have more to go wrong than values.
  const ZipEntry* entry = nullptr;
  bool is_value = false;
  do {
    entry = &zip.entries()[random.below(zip.entries().size())];
    is_value = entry->name.find("/data/") != std::string::npos;
  } while (entry->method != 0 || entry->bytes == 0 || (is_value && random.coin(0.9)));
  const std::string_view content = zip.packed(*entry);
  const auto begin = static_cast<std::size_t>(content.data() - archive.data());
  const std::uint64_t changes = 1 + random.below(4);
  for (std::uint64_t i = 0; i < changes; ++i) {
    char& byte = mutant[begin + random.below(content.size())];
    byte = random.coin() ? static_cast<char>(byte ^ (1 << random.below(8)))
                         : static_cast<char>(random.next_u32());
  }
  write_checksum(mutant, entry->name,
                 checksum_of(std::string_view(mutant).substr(begin, content.size())));
  return mutant;
}

int load_in_child(const Path& file) {
  const rlimit memory{.rlim_cur = std::uint64_t{16} << 30, .rlim_max = std::uint64_t{16} << 30};
  const rlimit seconds{.rlim_cur = 10, .rlim_max = 10};
  const rlimit no_core{};
  ::setrlimit(RLIMIT_AS, &memory);
  ::setrlimit(RLIMIT_CPU, &seconds);
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::alarm(60);
  try {
    const torch::jit::Module module = TorchScriptFile::read(file, 1 << 20).load();
    TorchScriptProgram(module, file.string()).signature();
    return kLoaded;
  } catch (const Error& error) {
    const bool has_name = error.message().find(file.filename().string()) != std::string::npos;
    return has_name ? kRefused : kWithoutName;
  } catch (const std::exception&) {
    return kWithoutName;
  }
}

TEST(TorchScriptMutants, AreLoadedOrRefusedByNameAndTheParentGoesOn) {
  const testing::TempDir dir;
  std::vector<std::string> seeds;
  for (const char* const name : {"mlp", "cnn", "encoder", "named", "traced_mlp"}) {
    seeds.push_back(testing::read_bytes(Path(MODELS_DIR) / (std::string(name) + ".pt")));
  }
  Random random(42);
  const int mutants = testing::are_tests_long() ? 20'000 : 40;
  int refused = 0;
  int killed = 0;
  for (int mutant = 0; mutant < mutants; ++mutant) {
    const Path file = dir / ("mutant_" + std::to_string(mutant) + ".pt");
    testing::write_bytes(file, mutant_of(seeds[random.below(seeds.size())], random));
    testing::Forked child([&](const auto&) { return load_in_child(file); });
    const int status = child.wait();
    if (status == kRefused) ++refused;
    if (status > kKilled) ++killed;
    EXPECT_TRUE(status == kLoaded || status == kRefused || status > kKilled)
        << file << " ended with " << status;
    std::filesystem::remove(file);
  }
  RecordProperty("killed", killed);
  std::printf("of %d mutants %d were refused, %d ended their process\n", mutants, refused, killed);
  EXPECT_GT(refused, mutants / 10);
}

}  // namespace
}  // namespace muster
