#include "muster/data/tables/table_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/base64.h"
#include "muster/data/dataset/dataset.h"
#include "muster/testing/parquet_samples.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using testing::TempDir;
using testing::write_bytes;

float ratio_of(const TableRow& row) {
  return std::get<TableNumbers<float>>(
      row.block->columns[row.block->column("ratio")].values)[row.row];
}

Dataset<TableRow> two_files(const TempDir& folder) {
  write_bytes(folder / "a.parquet", base64_decode(testing::parquet_samples::kHyparquet));
  write_bytes(folder / "b.parquet", base64_decode(testing::parquet_samples::kHyparquet));
  return parquet_rows({folder / "*.parquet"}, {.columns = {"ratio"}, .block_rows = 32});
}

std::vector<float> drained(Iterator<TableRow>& iterator) {
  std::vector<float> ratios;
  while (const auto row = iterator.next()) ratios.push_back(ratio_of(*row));
  return ratios;
}

TEST(TableFiles, GiveEveryRowOfEveryFile) {
  const TempDir folder;
  const auto rows = two_files(folder);
  EXPECT_EQ(rows.size(), 600u);
  const auto ratios = drained(*rows.iterate());
  ASSERT_EQ(ratios.size(), 600u);
  for (std::size_t i = 0; i < 600; ++i) EXPECT_EQ(ratios[i], static_cast<float>(i % 300) / 4);
}

TEST(TableFiles, AreResumedAtAnyRow) {
  const TempDir folder;
  const auto rows = two_files(folder).shuffle(50, 7);
  const auto all = drained(*rows.iterate());
  for (const std::size_t done : {0, 1, 31, 32, 290, 299, 300, 455, 600}) {
    const auto first = rows.iterate();
    for (std::size_t i = 0; i < done; ++i) first->next();
    const auto rest = drained(*rows.iterate(first->save()));
    EXPECT_EQ(rest, std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(done), all.end()))
        << done;
  }
}

}  // namespace
}  // namespace muster
