#include "muster/data/tables/parquet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/base/unaligned.h"
#include "muster/testing/message_of.h"
#include "muster/testing/parquet_samples.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

namespace samples = testing::parquet_samples;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::string_view kAllSamples[] = {samples::kHyparquet, samples::kWasmV1Zstd,
                                            samples::kWasmV2Gzip, samples::kDuckdbSnappy,
                                            samples::kDuckdbV2Zstd};

std::unique_ptr<TableReader> open_bytes(const std::string& bytes, ParquetOptions options = {}) {
  auto owner = std::make_shared<const std::string>(bytes);
  const std::string_view view = *owner;
  return open_parquet(view, std::move(owner), "x.parquet", std::move(options));
}

std::unique_ptr<TableReader> open_sample(std::string_view sample, ParquetOptions options = {}) {
  return open_bytes(base64_decode(sample), std::move(options));
}

// Contents of row i, as tests/tables/make_parquet_samples.mjs has made it.
std::optional<std::int64_t> wide_of(std::int64_t i) {
  if (i % 4 == 1) return std::nullopt;
  return i * 10'000'000'019;
}
std::optional<double> exact_of(std::int64_t i) {
  if (i >= 100 && i < 170) return std::nullopt;
  return static_cast<double>(i % 50) / 8;
}
std::optional<std::string> word_of(std::int64_t i) {
  if (i % 5 == 2) return std::nullopt;
  return fmt::format("word {}", i % 7);
}

template <typename T>
std::optional<T> value_at(const TableBlock& block, std::string_view name, std::size_t row) {
  const TableColumn& column = block.columns[block.column(name)];
  if (!column.is_valid(row)) return std::nullopt;
  return std::visit(
      [&](const auto& values) -> T {
        if constexpr (std::is_constructible_v<T, decltype(values[row])>) {
          return static_cast<T>(values[row]);
        } else {
          throw Internal("a column of another type");
        }
      },
      column.values);
}

void expect_row(const TableBlock& block, std::size_t row, std::int64_t i) {
  SCOPED_TRACE(i);
  EXPECT_EQ(value_at<int>(block, "flag", row), i % 3 == 0 ? 1 : 0);
  EXPECT_EQ(value_at<std::int64_t>(block, "small", row), (i * 7) % 11 - 5);
  EXPECT_EQ(value_at<std::int64_t>(block, "wide", row), wide_of(i));
  EXPECT_EQ(value_at<double>(block, "ratio", row), static_cast<double>(i) / 4);
  EXPECT_EQ(value_at<double>(block, "exact", row), exact_of(i));
  EXPECT_EQ(value_at<std::string>(block, "word", row), word_of(i));
}

TEST(Parquet, ReadsFilesOfOtherPrograms) {
  for (const std::string_view sample : kAllSamples) {
    const auto reader = open_sample(sample, {.block_rows = 77});
    std::int64_t i = 0;
    while (const auto block = reader->next()) {
      EXPECT_EQ(block->first_row, static_cast<std::uint64_t>(i));
      for (std::size_t row = 0; row < block->rows; ++row) expect_row(*block, row, i++);
      if (HasFailure()) return;
    }
    EXPECT_EQ(i, static_cast<std::int64_t>(reader->rows().value()));
    EXPECT_GE(i, 300);
  }
}

TEST(Parquet, ReadsTheSameStringsInEveryEncoding) {
  const auto reader =
      open_sample(samples::kHyparquet, {.columns = {"word", "other_word", "plain_word"}});
  std::size_t rows = 0;
  while (const auto block = reader->next()) {
    for (std::size_t row = 0; row < block->rows; ++row) {
      const auto word = value_at<std::string>(*block, "word", row);
      EXPECT_EQ(value_at<std::string>(*block, "other_word", row), word);
      EXPECT_EQ(value_at<std::string>(*block, "plain_word", row), word);
    }
    rows += block->rows;
  }
  EXPECT_EQ(rows, 300u);
}

TEST(Parquet, ReadsListsWithMissingListsAndElements) {
  for (const std::string_view sample : {samples::kWasmV1Zstd, samples::kWasmV2Gzip,
                                        samples::kDuckdbSnappy, samples::kDuckdbV2Zstd}) {
    const auto reader = open_sample(sample, {.columns = {"tags"}, .block_rows = 50});
    ASSERT_EQ(reader->fields()->front().list_depth, 1u);
    std::int64_t i = 0;
    while (const auto block = reader->next()) {
      const TableColumn& tags = block->columns.front();
      ASSERT_EQ(tags.splits.front().size(), block->rows + 1);
      for (std::size_t row = 0; row < block->rows; ++row, ++i) {
        const auto begin = static_cast<std::size_t>(tags.splits.front()[row]);
        const auto end = static_cast<std::size_t>(tags.splits.front()[row + 1]);
        ASSERT_EQ(end - begin, i % 6 == 5 ? 0u : static_cast<std::size_t>(i % 4)) << i;
        for (std::size_t k = begin; k < end; ++k) {
          const auto at = static_cast<std::int64_t>(k - begin);
          const bool missing = at == 1 && i % 8 == 2;
          EXPECT_EQ(tags.is_valid(k), !missing);
          const std::string expected = missing ? "" : fmt::format("t{}", (i + at) % 9);
          EXPECT_EQ(std::get<std::vector<std::string_view>>(tags.values)[k], expected);
        }
      }
    }
    EXPECT_GE(i, 300);
  }
}

TEST(Parquet, ReadsListsOfLists) {
  for (const std::string_view sample : {samples::kDuckdbSnappy, samples::kDuckdbV2Zstd}) {
    const auto reader = open_sample(sample, {.columns = {"nested"}, .block_rows = 64});
    ASSERT_EQ(reader->fields()->front().list_depth, 2u);
    std::int64_t i = 0;
    while (const auto block = reader->next()) {
      const TableColumn& nested = block->columns.front();
      const auto& values = std::get<TableNumbers<std::int32_t>>(nested.values);
      for (std::size_t row = 0; row < block->rows; ++row, ++i) {
        const std::int64_t first = nested.splits[0][row];
        ASSERT_EQ(nested.splits[0][row + 1] - first, i % 3) << i;
        for (std::int64_t k = 0; k < i % 3; ++k) {
          const std::int64_t begin = nested.splits[1][static_cast<std::size_t>(first + k)];
          ASSERT_EQ(nested.splits[1][static_cast<std::size_t>(first + k + 1)] - begin, k + 1);
          for (std::int64_t m = 0; m <= k; ++m) {
            EXPECT_EQ(values[static_cast<std::size_t>(begin + m)], i + m);
          }
        }
      }
    }
  }
}

TEST(Parquet, ReadsStructsMapsDecimalsTimesAndUnsignedNumbers) {
  for (const std::string_view sample : {samples::kDuckdbSnappy, samples::kDuckdbV2Zstd}) {
    const auto reader = open_sample(sample);
    const auto block = reader->next();
    constexpr std::size_t kRow = 250;
    EXPECT_EQ(value_at<std::string>(*block, "address.city", kRow), "c1");
    EXPECT_EQ(value_at<int>(*block, "address.zip", kRow), 50);
    EXPECT_EQ(value_at<double>(*block, "price", kRow), 2.5);
    EXPECT_EQ(value_at<double>(*block, "large_price", kRow), 2.5);
    EXPECT_EQ(value_at<int>(*block, "day", kRow), 250);
    EXPECT_EQ(value_at<std::int64_t>(*block, "moment", kRow), 1'577'836'800'000'000 + 250'000'000);
    EXPECT_EQ(value_at<std::int64_t>(*block, "unsigned_number", kRow), 4'294'959'000 + 250);
    const TableColumn& keys = block->columns[block->column("pairs.key")];
    const TableColumn& values = block->columns[block->column("pairs.value")];
    EXPECT_EQ(keys.splits.front()[kRow + 1], static_cast<std::int64_t>(kRow) + 1);
    EXPECT_EQ(std::get<std::vector<std::string_view>>(keys.values)[kRow], "k0");
    EXPECT_EQ(std::get<TableNumbers<std::int32_t>>(values.values)[kRow], 250);
    const auto& fields = *block->fields;
    EXPECT_EQ(fields[block->column("moment")].meaning, "microseconds since 1970-01-01");
    EXPECT_EQ(fields[block->column("price")].meaning, "decimal(9, 2)");
  }
}

TEST(Parquet, ReadsHalves) {
  const auto block = open_sample(samples::kHyparquet, {.columns = {"half"}})->next();
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(value_at<double>(*block, "half", i), static_cast<double>(i) / 4 - 1);
  }
}

TEST(Parquet, GoesToAnyRow) {
  for (const std::string_view sample : kAllSamples) {
    const auto reader = open_sample(sample, {.block_rows = 40});
    for (const std::uint64_t row : {299, 0, 99, 100, 101, 250, 199, 3, 77}) {
      reader->seek(row);
      EXPECT_EQ(reader->position(), row);
      const auto block = reader->next();
      EXPECT_EQ(block->first_row, row);
      expect_row(*block, 0, static_cast<std::int64_t>(row));
      expect_row(*block, block->rows - 1, static_cast<std::int64_t>(row + block->rows - 1));
    }
    reader->seek(1'000'000);
    EXPECT_EQ(reader->next(), nullptr);
  }
}

TEST(Parquet, GoesToAnyRowOfLists) {
  const auto all = open_sample(samples::kDuckdbV2Zstd, {.columns = {"tags"}})->next();
  const auto reader = open_sample(samples::kDuckdbV2Zstd, {.columns = {"tags"}, .block_rows = 5});
  reader->seek(1'501);
  const auto block = reader->next();
  ASSERT_EQ(block->rows, 5u);
  const auto& splits = all->columns.front().splits.front();
  const auto& values = std::get<std::vector<std::string_view>>(all->columns.front().values);
  const auto& some = std::get<std::vector<std::string_view>>(block->columns.front().values);
  EXPECT_EQ(
      std::vector<std::string_view>(values.begin() + splits[1'501], values.begin() + splits[1'506]),
      some);
}

TEST(Parquet, KeepsStringsAliveWithoutTheReader) {
  std::vector<std::shared_ptr<const TableBlock>> blocks;
  {
    const auto reader = open_sample(samples::kHyparquet, {.block_rows = 64});
    while (auto block = reader->next()) blocks.push_back(std::move(block));
  }
  std::int64_t i = 0;
  for (const auto& block : blocks) {
    for (std::size_t row = 0; row < block->rows; ++row) expect_row(*block, row, i++);
  }
}

TEST(Parquet, NamesTheColumnsThatThereAre) {
  EXPECT_THAT(message_of([] { open_sample(samples::kHyparquet, {.columns = {"wrod"}}); }),
              HasSubstr("x.parquet: no column `wrod`; there are flag, small, wide, ratio"));
}

TEST(Parquet, RefusesWhatIsNoWholeFile) {
  const std::string whole = base64_decode(samples::kDuckdbV2Zstd);
  EXPECT_THROW(open_bytes(""), DataLoss);
  EXPECT_THROW(open_bytes("PAR1PAR1"), DataLoss);
  EXPECT_THROW(open_bytes(whole.substr(0, whole.size() - 1)), DataLoss);
  EXPECT_THROW(open_bytes(whole.substr(0, whole.size() / 2)), DataLoss);
  EXPECT_THROW(open_bytes(whole.substr(1)), DataLoss);
  std::string long_footer = whole;
  long_footer[whole.size() - 5] = '\x7f';
  EXPECT_THAT(message_of([&] { open_bytes(long_footer); }), HasSubstr("do not fit the file"));
  std::string encrypted = whole;
  encrypted[whole.size() - 1] = 'E';
  EXPECT_THROW(open_bytes(encrypted), Unimplemented);
}

TEST(Parquet, NamesFileColumnAndPageOfADamagedByte) {
  std::string bytes = base64_decode(samples::kDuckdbV2Zstd);
  // Within the compressed page of the first column, after its header.
  for (std::size_t at = 40; at < 60; ++at) bytes[at] = static_cast<char>(~bytes[at]);
  const auto reader = open_bytes(bytes);
  for (int i = 0; i < 2; ++i) {  // the reader says it each time
    EXPECT_THAT(message_of([&] { reader->next(); }),
                HasSubstr("x.parquet: column flag, page at byte 4: "));
  }
}

TEST(Parquet, OfAMissingFileThrowsNotFound) {
  const testing::TempDir folder;
  EXPECT_THROW(open_parquet(folder / "absent.parquet"), NotFound);
}

TEST(Parquet, RefusesMoreListValuesThanABlockMayHave) {
  const auto reader =
      open_sample(samples::kDuckdbV2Zstd, {.columns = {"tags"}, .max_block_values = 100});
  EXPECT_THAT(message_of([&] { reader->next(); }), HasSubstr("lower block_rows"));
}

}  // namespace
}  // namespace muster
