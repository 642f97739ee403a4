#include "muster/data/records/cifar10.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "muster/base/error.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_bytes;

std::string record(char label, char pixel) {
  return label + std::string(kCifar10ImageBytes, pixel);
}

TEST(Cifar10Binary, ReadsLabelsAndImages) {
  const TempDir folder;
  const std::string bytes = record(3, 'a') + record(9, 'b');
  write_bytes(folder / "x.bin", bytes);
  const auto batch = read_cifar10_binary(folder / "x.bin");
  EXPECT_EQ(batch.labels, (std::vector<std::uint8_t>{3, 9}));
  EXPECT_EQ(batch.image(1), std::string(kCifar10ImageBytes, 'b'));
  EXPECT_EQ(to_cifar10_binary(batch), bytes);
}

TEST(Cifar10Binary, NamesTheRecordOfALabelAboveNine) {
  try {
    parse_cifar10_binary(record(1, 'a') + record(10, 'b'), "x.bin");
    FAIL();
  } catch (const DataLoss& error) {
    EXPECT_THAT(error.what(), HasSubstr("x.bin: record 1 at offset 3073: label 10"));
  }
}

TEST(Cifar10Binary, RefusesARecordThatIsCutShort) {
  try {
    parse_cifar10_binary((record(1, 'a') + record(2, 'b')).substr(0, 4000), "x.bin");
    FAIL();
  } catch (const DataLoss& error) {
    EXPECT_THAT(error.what(), HasSubstr("927 are left at offset 3073"));
  }
}

TEST(Cifar10LabelNames, MustBeTen) {
  const TempDir folder;
  write_bytes(folder / "batches.meta.txt", "a\nb\n");
  EXPECT_THROW(read_cifar10_label_names(folder / "batches.meta.txt"), DataLoss);
}

struct Counts {
  std::array<std::size_t, kCifar10Classes> labels{};
  std::uint64_t sum = 0;
  std::size_t bytes = 0;
};

void count(const Cifar10Batch& batch, Counts& counts) {
  for (const auto label : batch.labels) ++counts.labels[label];
  for (const char pixel : batch.pixels) counts.sum += static_cast<std::uint8_t>(pixel);
  counts.bytes += batch.pixels.size();
}

TEST(Cifar10Binary, ReadsTheRealFilesWithTheirPublishedCountsAndMean) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  // Each file takes seconds to unpack.
  if (testing::are_tests_long()) {
    Counts train;
    for (int i = 1; i <= 5; ++i) {
      count(read_cifar10_binary(data / fmt::format("cifar-10/data_batch_{}.bin.xz", i)), train);
    }
    EXPECT_THAT(train.labels, Each(5'000));
    EXPECT_NEAR(static_cast<double>(train.sum) / static_cast<double>(train.bytes), 120.7076,
                0.00005);
  }
  Counts test;
  count(read_cifar10_binary(data / "cifar-10/test_batch.bin.xz"), test);
  EXPECT_THAT(test.labels, Each(1'000));
}

TEST(Cifar10LabelNames, AreTheTenClasses) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto names = read_cifar10_label_names(data / "cifar-10/batches.meta.txt");
  EXPECT_EQ(names.front(), "airplane");
  EXPECT_EQ(names.back(), "truck");
}

}  // namespace
}  // namespace muster
