#include "fuzz/fuzz.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/data/records/record_index.h"

// The first byte says whether the checksums are set right before parsing, so that mutants get past
// them.

namespace {

constexpr std::size_t kHeaderBytes = 48;

void repair_checksums(std::string& bytes) {
  if (bytes.size() < kHeaderBytes) return;
  const auto store = [&](std::size_t offset, std::string_view of) {
    const std::uint32_t masked = muster::mask_crc(muster::crc32c(of));
    bytes.replace(offset, 4, reinterpret_cast<const char*>(&masked), 4);
  };
  store(40, std::string_view(bytes).substr(kHeaderBytes));
  store(44, std::string_view(bytes).substr(0, 44));
}

void use(const muster::RecordIndex& index) {
  if (!index.has_offsets() || index.count() == 0) return;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < index.count(); ++i) sum += index.offset(i);
  if (sum == 1) throw muster::OutOfRange("keeps the sum alive");
  index.offset(index.count());  // throws
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] & 1) repair_checksums(bytes);
  try {
    use(muster::RecordIndex::parse(bytes, "fuzz"));
  } catch (const muster::Error&) {
  }
  return 0;
}

namespace muster::fuzz {

std::vector<std::string> seeds() {
  const FileStatus status{.size_bytes = 100000, .modified_ns = 1234567890};
  std::vector<std::uint64_t> near;
  for (std::uint64_t i = 0; i < 300; ++i) near.push_back(i * 116);
  const std::vector<std::uint64_t> far = {0, std::uint64_t{1} << 33, std::uint64_t{1} << 40};
  std::vector<std::string> all;
  for (const auto& index :
       {RecordIndex::from_offsets(near, status), RecordIndex::from_offsets(far, status),
        RecordIndex::from_offsets({}, status), RecordIndex::from_count(77, status)}) {
    for (const char choice : {'\0', '\1'}) all.push_back(choice + std::string(index.bytes()));
  }
  return all;
}

MemoryBound memory_bound() { return {}; }

}  // namespace muster::fuzz
