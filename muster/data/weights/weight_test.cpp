#include "muster/data/weights/weight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A tensor over the numbers 0, 1, 2, ... of a storage.
Weight over_numbers(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                    std::uint64_t first, std::size_t numbers) {
  const auto values = std::make_shared<std::vector<std::int32_t>>();
  for (std::size_t i = 0; i < numbers; ++i) values->push_back(static_cast<std::int32_t>(i));
  return {.name = "w",
          .spec = {.type = DataType::kInt32, .shape = std::move(shape)},
          .strides = std::move(strides),
          .storage = storage_of(WeightBytes{std::as_bytes(std::span(*values)), values}),
          .first_byte = first * 4};
}

std::vector<std::int32_t> numbers_of(const Weight& weight) {
  const WeightBytes bytes = row_major_bytes(weight);
  std::vector<std::int32_t> numbers(bytes.bytes.size() / 4);
  std::memcpy(numbers.data(), bytes.bytes.data(), bytes.bytes.size());
  return numbers;
}

TEST(Weight, IsAViewOfItsStorageWhereElementsLieRowMajor) {
  const Weight weight = over_numbers({2, 2}, {2, 1}, 3, 8);
  EXPECT_THAT(numbers_of(weight), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(row_major_bytes(weight).bytes.data(), weight.storage->read().bytes.data() + 12);
}

TEST(Weight, IsCopiedFromStridedElements) {
  EXPECT_THAT(numbers_of(over_numbers({3, 2}, {1, 3}, 0, 6)), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(numbers_of(over_numbers({2, 2}, {4, 1}, 1, 8)), ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(numbers_of(over_numbers({2, 3}, {0, 0}, 2, 3)), ElementsAre(2, 2, 2, 2, 2, 2));
  EXPECT_THAT(numbers_of(over_numbers({2, 2, 2}, {1, 2, 4}, 0, 8)),
              ElementsAre(0, 4, 2, 6, 1, 5, 3, 7));
}

TEST(Weight, OfNoElementsHasNoBytes) {
  EXPECT_THAT(numbers_of(over_numbers({0, 3}, {3, 1}, 0, 0)), ElementsAre());
  EXPECT_THAT(numbers_of(over_numbers({2, 0}, {9, 1}, 1, 2)), ElementsAre());
}

TEST(Weight, OutsideItsStorageIsRefused) {
  check_extent(over_numbers({3, 2}, {1, 3}, 0, 6), 0, "f");
  for (const Weight& weight :
       {over_numbers({3, 2}, {1, 3}, 1, 6), over_numbers({3, 2}, {1, 4}, 0, 6),
        over_numbers({2}, {-1}, 1, 6), over_numbers({2}, {INT64_MAX}, 0, 6),
        over_numbers({INT64_MAX, 2}, {1, 1}, 0, 6), over_numbers({}, {}, 7, 6)}) {
    EXPECT_THROW(check_extent(weight, 0, "f"), DataLoss) << shape_text(weight.strides);
  }
  EXPECT_THAT(testing::message_of([] { check_extent(over_numbers({7}, {1}, 0, 6), 0, "file.pt"); }),
              HasSubstr("file.pt: tensor 'w', int32 [7] with strides [1]"));
}

TEST(Weight, ThatRepeatsItsElementsIsBounded) {
  check_extent(over_numbers({1000}, {0}, 0, 1), 4000, "f");
  EXPECT_THROW(check_extent(over_numbers({1001}, {0}, 0, 1), 4000, "f"), ResourceExhausted);
  EXPECT_THROW(check_extent(over_numbers({INT64_MAX}, {0}, 0, 1), 4000, "f"), ResourceExhausted);
}

}  // namespace
}  // namespace muster
