#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "benchmarks/report.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/data/records/record_reader.h"
#include "muster/data/records/record_writer.h"

// Reading TFRecord files over memcpy of the same bytes, and writing them over write() of the same
// bytes.

namespace muster {
namespace {

const std::size_t kFileBytes = bench::sized<std::size_t>(512, 8) << 20;
constexpr std::size_t kFrameBytes = 16;
constexpr double kGigabyte = 1e9;

/// A folder for the files, removed at the end.
class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& parent)
      : path_(parent / fmt::format("muster-records-bench-{}", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Memory whose pages are there.
std::unique_ptr<char[]> touched(std::size_t size, char value) {
  std::unique_ptr<char[]> memory(new char[size]);
  std::memset(memory.get(), value, size);
  return memory;
}

std::string random_bytes(std::size_t size) {
  Random random(1);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.next_u32());
  return bytes;
}

void write_records(const Path& path, std::string_view pool, std::size_t record_bytes) {
  RecordWriter writer(path, {.atomic = false, .durable = false});
  std::size_t at = 0;
  while (writer.bytes() < kFileBytes) {
    at = (at + record_bytes) % (pool.size() - record_bytes);
    writer.append(pool.substr(at, record_bytes));
  }
  writer.close();
}

/// Opens the file, reads all records with both checksums, closes it.
void read_records(const Path& path, std::uint64_t expected) {
  RecordReader reader(path, {.compression = Compression::kNone});
  while (const auto record = reader.next()) bench::keep(*record);
  if (reader.record_number() != expected) throw Internal("{} records are missing", expected);
}

void measure_reading(bench::Report& report, const Scratch& scratch, std::string_view pool,
                     std::size_t record_bytes, double at_least, double aim) {
  const std::string name =
      fmt::format("read {}-byte records, both CRCs, over memcpy", record_bytes);
  if (!report.wants(name)) return;
  const Path path = scratch / "read";
  write_records(path, pool, record_bytes);
  const std::size_t size = std::filesystem::file_size(path);
  const std::uint64_t records = size / (record_bytes + kFrameBytes);
  const auto from = touched(size, 1);
  const auto to = touched(size, 2);
  const auto pair = bench::median_pair([&] { read_records(path, records); },
                                       [&] {
                                         std::memcpy(to.get(), from.get(), size);
                                         bench::keep(to[size / 2]);
                                       },
                                       report.effort());
  const double bytes = static_cast<double>(size) / kGigabyte;
  report.add({name, bytes / pair.work_seconds, "GB/s", bytes / pair.limit_seconds, at_least, aim});
  std::filesystem::remove(path);
}

void raw_write(const Path& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw_errno(errno, "opening " + path.string());
  while (!bytes.empty()) {
    constexpr std::size_t kStep = std::size_t{1} << 20;
    const auto count = ::write(fd, bytes.data(), std::min(bytes.size(), kStep));
    if (count < 0) throw_errno(errno, "writing " + path.string());
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  ::close(fd);
}

void measure_writing(bench::Report& report, const Scratch& scratch, std::string_view pool,
                     std::size_t record_bytes, double at_least, double aim) {
  const std::string name = fmt::format("write {}-byte records, over write()", record_bytes);
  if (!report.wants(name)) return;
  const Path path = scratch / "write";
  const std::size_t size =
      (kFileBytes / (record_bytes + kFrameBytes) + 1) * (record_bytes + kFrameBytes);
  const auto from = touched(size, 1);
  const auto pair = bench::median_pair([&] { write_records(path, pool, record_bytes); },
                                       [&] {
                                         raw_write(path, {from.get(), size});
                                       },
                                       report.effort());
  const double bytes = static_cast<double>(size) / kGigabyte;
  report.add({name, bytes / pair.work_seconds, "GB/s", bytes / pair.limit_seconds, at_least, aim});
  std::filesystem::remove(path);
}

/// Where a file is nothing but page cache: a disk's write-back would be what is measured.
std::filesystem::path memory_folder() {
  const std::filesystem::path shared = "/dev/shm";
  return ::access(shared.c_str(), W_OK) == 0 ? shared : std::filesystem::temp_directory_path();
}

int run(int argc, char** argv) {
  bench::Report report(argc, argv);
  fmt::print("crc32c: {}\n", crc32c_implementation());
  const std::string pool = random_bytes(std::size_t{8} << 20);
  const Scratch on_disk(std::filesystem::temp_directory_path());
  const Scratch in_memory(memory_folder());
  measure_reading(report, on_disk, pool, 3072, 0.55, 0.7);
  measure_reading(report, on_disk, pool, 100, 0.15, 0.3);
  measure_writing(report, in_memory, pool, 3072, 0.6, 0.9);
  return report.finish();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  try {
    return muster::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
