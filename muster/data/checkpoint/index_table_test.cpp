#include "muster/data/checkpoint/index_table_internal.h"

#include <gtest/gtest.h>
#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

#include "muster/base/error.h"

namespace muster {
namespace {

using Rows = std::map<std::string, std::string, std::less<>>;

Rows read_rows(std::string_view bytes) {
  Rows rows;
  read_index_table(bytes,
                   [&](std::string_view key, std::string_view value) { rows.emplace(key, value); });
  return rows;
}

// Enough for several blocks of 256 KiB.
Rows many_rows() {
  Rows rows{{"", "header"}};
  for (int i = 0; i < 5000; ++i) {
    rows.emplace("layer/" + std::to_string(i) + "/kernel", std::string(150, 'a' + i % 26));
  }
  return rows;
}

TEST(IndexTable, GivesBackItsRowsOverSeveralBlocks) {
  EXPECT_EQ(read_rows(build_index_table(many_rows())), many_rows());
}

TEST(IndexTable, MayHaveNoRows) { EXPECT_TRUE(read_rows(build_index_table({})).empty()); }

TEST(IndexTable, RefusesEveryTornFile) {
  const std::string whole = build_index_table({{"", "header"}, {"a", "1"}, {"ab", "2"}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(read_rows(std::string_view(whole).substr(0, size)), DataLoss) << size;
  }
}

TEST(IndexTable, NeverGivesWrongRowsWhenAByteIsFlipped) {
  const Rows rows{{"", "header"}, {"a", "1"}, {"ab", "2"}};
  const std::string whole = build_index_table(rows);
  int refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(~damaged[i]);
    try {
      EXPECT_EQ(read_rows(damaged), rows) << i;  // the meta index and the padding hold nothing
    } catch (const DataLoss&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 60);
}

/// Collects what a table builder writes.
class Collector : public leveldb::WritableFile {
 public:
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
  std::string bytes;
};

TEST(IndexTable, ReadsSnappyBlocks) {
  leveldb::Options options;
  options.compression = leveldb::kSnappyCompression;
  Collector file;
  leveldb::TableBuilder builder(options, &file);
  for (const auto& [key, value] : many_rows()) builder.Add(key, value);
  ASSERT_TRUE(builder.Finish().ok());
  ASSERT_LT(file.bytes.size(), build_index_table(many_rows()).size() / 2);
  EXPECT_EQ(read_rows(file.bytes), many_rows());
}

}  // namespace
}  // namespace muster
