#include <fmt/core.h>
#include <snappy.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/random.h"
#include "muster/data/tables/parquet.h"

// Scanning numbers of Parquet files over memcpy of the same columns, those of compressed pages over
// decompressing them. The files are in the page
// cache.

namespace muster {
namespace {

const std::uint64_t kRows = bench::sized<std::uint64_t>(4, 1) << (bench::is_quick() ? 14 : 20);
constexpr std::uint64_t kGroupRows = std::uint64_t{1} << 18;
constexpr std::uint64_t kPageRows = std::uint64_t{1} << 16;
constexpr std::size_t kDictionaryValues = 1000;

enum class Pages { kPlain, kOptional, kSnappy, kDictionary };

/// Metadata in Thrift's compact protocol, as much as these files need.
class Compact {
 public:
  Compact& field(int delta, int type) {
    bytes_ += static_cast<char>(delta << 4 | type);
    return *this;
  }
  Compact& varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  Compact& i32(int delta, std::int64_t value) { return field(delta, 5).zigzag(value); }
  Compact& i64(int delta, std::int64_t value) { return field(delta, 6).zigzag(value); }
  Compact& text(std::string_view value) {
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Compact& list(std::size_t size, int type) {
    bytes_ += static_cast<char>(0xf0 | type);
    return varint(size);
  }
  Compact& stop() {
    bytes_ += '\0';
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Compact& zigzag(std::int64_t value) {
    return varint((static_cast<std::uint64_t>(value) << 1) ^
                  static_cast<std::uint64_t>(value >> 63));
  }

  std::string bytes_;
};

/// One column of the file: INT32, INT64, FLOAT and DOUBLE by their numbers in the format.
struct BenchColumn {
  std::string name;
  int type;
  std::size_t width;
};
const std::vector<BenchColumn> kColumns{{"i", 1, 4}, {"l", 2, 8}, {"f", 4, 4}, {"d", 5, 8}};

std::size_t row_bytes() {
  std::size_t bytes = 0;
  for (const auto& column : kColumns) bytes += column.width;
  return bytes;
}

struct Chunk {
  std::uint64_t offset = 0;
  std::uint64_t dictionary_offset = 0;
  std::uint64_t bytes = 0;
};

class BenchFile {
 public:
  BenchFile(const Path& path, Pages pages)
      : file_(file_system_for(path).create(path)), pages_(pages) {
    put("PAR1");
    for (std::uint64_t row = 0; row < kRows; row += kGroupRows) {
      for (const auto& column : kColumns) chunks_.push_back(write_chunk(column));
    }
    const std::string footer = metadata();
    put(footer);
    const auto size = static_cast<std::uint32_t>(footer.size());
    put({reinterpret_cast<const char*>(&size), sizeof(size)});
    put("PAR1");
    file_->close();
  }

  /// The pages of kSnappy, one after the other.
  const std::vector<std::string>& compressed() const { return compressed_; }

 private:
  static std::uint64_t group_rows() { return std::min(kRows, kGroupRows); }

  void put(std::string_view bytes) {
    file_->write(bytes);
    offset_ += bytes.size();
  }

  std::string random_values(std::size_t count, std::size_t width) {
    std::string bytes(count * width, '\0');
    // The upper bytes alike, as in data: half of a page is then compressible.
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = i % width < (width + 1) / 2 ? static_cast<char>(random_.next_u32()) : '\x3f';
    }
    return bytes;
  }

  /// Ones in a run for values that are all there, or missing ones here and there, packed.
  std::string levels(std::size_t count, std::size_t& present) {
    std::string packed(count / 8, '\0');
    present = 0;
    for (char& byte : packed) {
      byte = static_cast<char>(random_.next_u32() | random_.next_u32() | random_.next_u32());
      present += static_cast<std::size_t>(std::popcount(static_cast<unsigned char>(byte)));
    }
    const std::string run = Compact().varint((count / 8) << 1 | 1).bytes() + packed;
    const auto size = static_cast<std::uint32_t>(run.size());
    return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + run;
  }

  std::string page_body(const BenchColumn& column, std::size_t count) {
    if (pages_ == Pages::kDictionary) {
      // Places of ten bits, packed.
      std::string packed(count / 8 * 10, '\0');
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t place = random_.below(kDictionaryValues);
        for (std::size_t bit = 0; bit < 10; ++bit) {
          char& byte = packed[(i * 10 + bit) / 8];
          if ((place >> bit & 1) != 0)
            byte = static_cast<char>(static_cast<unsigned char>(byte) | 1U << ((i * 10 + bit) % 8));
        }
      }
      return '\x0a' + Compact().varint((count / 8) << 1 | 1).bytes() + packed;
    }
    if (pages_ == Pages::kOptional) {
      std::size_t present = 0;
      const std::string first = levels(count, present);
      return first + random_values(present, column.width);
    }
    return random_values(count, column.width);
  }

  void put_page(const std::string& body, int type, std::size_t count, int encoding) {
    std::string stored = body;
    if (pages_ == Pages::kSnappy) snappy::Compress(body.data(), body.size(), &stored);
    Compact header;
    header.i32(1, type).i32(1, static_cast<std::int64_t>(body.size()));
    header.i32(1, static_cast<std::int64_t>(stored.size())).field(type == 2 ? 4 : 2, 12);
    header.i32(1, static_cast<std::int64_t>(count)).i32(1, encoding);
    if (type == 0) header.i32(1, 3).i32(1, 3);
    put(header.stop().stop().bytes());
    put(stored);
    if (pages_ == Pages::kSnappy) compressed_.push_back(std::move(stored));
  }

  Chunk write_chunk(const BenchColumn& column) {
    Chunk chunk;
    if (pages_ == Pages::kDictionary) {
      chunk.dictionary_offset = offset_;
      put_page(random_values(kDictionaryValues, column.width), 2, kDictionaryValues, 0);
    }
    chunk.offset = offset_;
    for (std::uint64_t row = 0; row < group_rows(); row += kPageRows) {
      const auto count = static_cast<std::size_t>(std::min(kPageRows, group_rows() - row));
      put_page(page_body(column, count), 0, count, pages_ == Pages::kDictionary ? 8 : 0);
    }
    chunk.bytes = offset_ - chunk.offset;
    return chunk;
  }

  std::string metadata() const {
    Compact out;
    out.i32(1, 1).field(1, 9).list(kColumns.size() + 1, 12);
    out.field(4, 8).text("root").i32(1, static_cast<std::int64_t>(kColumns.size())).stop();
    for (const auto& column : kColumns) {
      out.i32(1, column.type)
          .i32(2, pages_ == Pages::kOptional ? 1 : 0)
          .field(1, 8)
          .text(column.name)
          .stop();
    }
    const std::uint64_t groups = (kRows + kGroupRows - 1) / kGroupRows;
    out.i64(1, static_cast<std::int64_t>(kRows)).field(1, 9).list(groups, 12);
    for (std::size_t group = 0; group < groups; ++group) {
      out.field(1, 9).list(kColumns.size(), 12);
      for (std::size_t i = 0; i < kColumns.size(); ++i) {
        put_chunk(out, kColumns[i], chunks_[group * kColumns.size() + i]);
      }
      out.i64(1, 0).i64(1, static_cast<std::int64_t>(group_rows())).stop();
    }
    return out.stop().bytes();
  }

  void put_chunk(Compact& out, const BenchColumn& column, const Chunk& chunk) const {
    out.i64(2, 0).field(1, 12).i32(1, column.type);
    out.field(1, 9).list(0, 5).field(1, 9).list(1, 8).text(column.name);
    out.i32(1, pages_ == Pages::kSnappy ? 1 : 0).i64(1, static_cast<std::int64_t>(group_rows()));
    out.i64(1, 0).i64(1, static_cast<std::int64_t>(chunk.bytes));
    out.i64(2, static_cast<std::int64_t>(chunk.offset));
    if (chunk.dictionary_offset > 0) out.i64(2, static_cast<std::int64_t>(chunk.dictionary_offset));
    out.stop().stop();
  }

  std::unique_ptr<WritableFile> file_;
  Pages pages_;
  Random random_{1};
  std::uint64_t offset_ = 0;
  std::vector<Chunk> chunks_{};
  std::vector<std::string> compressed_{};
};

void scan(const Path& path) {
  const auto reader = open_parquet(path);
  std::uint64_t rows = 0;
  while (const auto block = reader->next()) {
    bench::keep(*block);
    rows += block->rows;
  }
  if (rows != kRows) throw Internal("{} rows instead of {}", rows, kRows);
}

/// `limit` is what the machine does at best, for `name`.
void measure_scan(bench::Report& report, const Path& path, const std::string& name,
                  const std::function<void()>& limit, double at_least, double aim) {
  const auto pair = bench::median_pair([&] { scan(path); }, limit, report.effort());
  const double gigabytes = static_cast<double>(kRows * row_bytes()) / 1e9;
  report.add(
      {name, gigabytes / pair.work_seconds, "GB/s", gigabytes / pair.limit_seconds, at_least, aim});
}

void measure_over_memcpy(bench::Report& report, const std::filesystem::path& folder, Pages pages,
                         const std::string& pages_name) {
  const std::string name = fmt::format("scan numbers of Parquet, {}, over memcpy", pages_name);
  if (!report.wants(name)) return;
  const BenchFile file(folder / "scan.parquet", pages);
  const std::size_t size = kRows * row_bytes();
  const std::vector<char> from(size, 1);
  std::vector<char> to(size, 2);
  const auto copy = [&] {
    std::memcpy(to.data(), from.data(), size);
    bench::keep(to[size / 2]);
  };
  measure_scan(report, folder / "scan.parquet", name, copy, 0.3, 0.6);
}

void measure_over_snappy(bench::Report& report, const std::filesystem::path& folder) {
  const std::string name = "scan numbers of Parquet, snappy, over decompressing";
  if (!report.wants(name)) return;
  const BenchFile file(folder / "scan.parquet", Pages::kSnappy);
  std::vector<char> to(kPageRows * 8);
  const auto decompress = [&] {
    for (const std::string& page : file.compressed()) {
      if (!snappy::RawUncompress(page.data(), page.size(), to.data())) throw Internal("no snappy");
    }
    bench::keep(to.front());
  };
  measure_scan(report, folder / "scan.parquet", name, decompress, 0.6, 0.8);
}

int run(int argc, char** argv) {
  bench::Report report(argc, argv);
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("muster-tables-bench-{}", ::getpid());
  std::filesystem::create_directories(folder);
  measure_over_memcpy(report, folder, Pages::kPlain, "plain pages");
  measure_over_memcpy(report, folder, Pages::kOptional, "an eighth missing");
  measure_over_memcpy(report, folder, Pages::kDictionary, "a dictionary of 1,000");
  measure_over_snappy(report, folder);
  std::filesystem::remove_all(folder);
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
