#include "muster/data/dataset/record_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "muster/data/dataset/drain_internal.h"
#include "muster/data/records/record_index.h"
#include "muster/data/records/record_writer.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::muster::testing::message_of;
using ::muster::testing::TempDir;
using ::muster::testing::write_bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string text_of(const Record& record) { return std::string(record.bytes); }

// Files of records "0-0", "0-1", ..., "1-0", ...
std::vector<Path> write_tfrecords(const TempDir& dir, std::vector<int> sizes, bool index) {
  std::vector<Path> files;
  for (std::size_t file = 0; file < sizes.size(); ++file) {
    files.push_back(dir / (std::to_string(file) + ".tfrecords"));
    RecordWriter writer(files.back(), {.write_index = index});
    for (int i = 0; i < sizes[file]; ++i) writer.append(fmt::format("{}-{}", file, i));
    writer.close();
  }
  return files;
}

Path write_text(const TempDir& dir, std::string_view name, std::string_view text) {
  write_bytes(dir / name, text);
  return dir / name;
}

TEST(RecordFiles, GivesTheRecordsOfOneFileAfterTheOther) {
  const TempDir dir;
  const auto files = {write_text(dir, "a.txt", "one\ntwo\n"), write_text(dir, "b.txt", ""),
                      write_text(dir, "c.txt", "three")};
  EXPECT_THAT(drain(text_lines(files).map(text_of)), ElementsAre("one", "two", "three"));
}

TEST(RecordFiles, ReadsFixedLengthAndCsv) {
  const TempDir dir;
  const auto fixed = fixed_length({write_text(dir, "a.bin", "aabbcc")}, {.record_bytes = 2});
  EXPECT_THAT(drain(fixed.map(text_of)), ElementsAre("aa", "bb", "cc"));
  EXPECT_EQ(fixed.size(), 3u);
  const auto rows =
      csv_rows({write_text(dir, "a.csv", "h\n1,\"x\ny\"\n2,z\n")}, {.skip_header_lines = 1});
  EXPECT_THAT(drain(rows.map(text_of)), ElementsAre("1,\"x\ny\"", "2,z"));
}

TEST(RecordFiles, KeepsRecordsAliveWhenTheIteratorIsGone) {
  const TempDir dir;
  const auto records = drain(tfrecords(write_tfrecords(dir, {3, 2}, false)).shuffle(3, 1));
  std::vector<std::string> texts;
  for (const Record& record : records) texts.push_back(text_of(record));
  std::sort(texts.begin(), texts.end());
  EXPECT_THAT(texts, ElementsAre("0-0", "0-1", "0-2", "1-0", "1-1"));
}

TEST(RecordFiles, NamesFileAndRecordWhenAMapFunctionThrows) {
  const TempDir dir;
  const auto lines =
      text_lines({write_text(dir, "a.txt", "1\n2\n"), write_text(dir, "b.txt", "x\n3\n")});
  const auto parse = [](const Record& record) -> std::int64_t {
    if (record.bytes == "x") throw InvalidArgument("not a number: x");
    return record.bytes[0] - '0';
  };
  for (const std::size_t parallelism : {1, 2}) {
    auto iterator = lines.shuffle(1, 1).map(parse, {.parallelism = parallelism}).iterate();
    EXPECT_THAT(
        drain_events(*iterator, show_number),
        ElementsAre("1", "2",
                    fmt::format("!map of {} line 1: not a number: x", (dir / "b.txt").string()),
                    "3"));
  }
}

TEST(RecordFiles, ReportsADamagedRecordAndAMissingFileAndGoesOn) {
  const TempDir dir;
  auto files = write_tfrecords(dir, {3, 2}, false);
  testing::flip_byte(files[0], 19 + 12);  // the first data byte of record 1: 12 + 3 + 4 bytes each
  files.insert(files.begin() + 1, dir / "missing.tfrecords");
  auto iterator = tfrecords(files).map(text_of).iterate();
  const auto events = drain_events(*iterator, [](const std::string& text) { return text; });
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0], "0-0");
  EXPECT_THAT(events[1], HasSubstr("record 1"));
  EXPECT_EQ(events[2], "0-2");
  EXPECT_THAT(events[3], HasSubstr("missing.tfrecords"));
  EXPECT_EQ(events[5], "1-1");
}

TEST(RecordFiles, GoesOnWithTheNextFileWhereOneCannotBeReadOn) {
  const TempDir dir;
  const auto files = write_tfrecords(dir, {3, 2}, false);
  std::filesystem::resize_file(files[0], 19 + 5);  // torn in record 1
  auto iterator = tfrecords(files).map(text_of).ignore_errors(1).iterate();
  EXPECT_THAT(drain(*iterator), ElementsAre("0-0", "1-0", "1-1"));
}

TEST(RecordFiles, HasAGlobalShuffleWithIndexesAndSaysHowToMakeThem) {
  const TempDir dir;
  const auto files = write_tfrecords(dir, {40, 0, 60}, true);
  const auto dataset = tfrecords(files).map(text_of).global_shuffle(1);
  EXPECT_EQ(tfrecords(files).size(), 100u);
  auto texts = drain(dataset);
  EXPECT_FALSE(std::is_sorted(texts.begin(), texts.end()));
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::unique(texts.begin(), texts.end()) - texts.begin(), 100);

  std::filesystem::remove(RecordIndex::path_for(files[2]));
  try {
    dataset.iterate();
    FAIL();
  } catch (const FailedPrecondition& error) {
    EXPECT_THAT(error.what(), HasSubstr("muster records index " + files[2].string()));
  }
}

TEST(RecordFiles, DoesNotReadTheRecordsOfOtherShardsWhereThereIsAnIndex) {
  const TempDir dir;
  const auto files = write_tfrecords(dir, {4}, true);
  const auto modified = std::filesystem::last_write_time(files[0]);
  testing::flip_byte(files[0], 19 + 12);  // would be seen if record 1 were read
  std::filesystem::last_write_time(files[0], modified);
  EXPECT_THAT(drain(tfrecords(files).map(text_of).shard(2, 0)), ElementsAre("0-0", "0-2"));
  EXPECT_THROW(drain(tfrecords(files).map(text_of).shard(2, 1)), DataLoss);
}

TEST(RecordFiles, ResumesFromAnyPlaceWithAndWithoutIndexes) {
  const TempDir dir;
  for (const bool index : {false, true}) {
    const auto files = write_tfrecords(dir, {20, 0, 31, 4}, index);
    const auto dataset =
        tfrecords(files).shuffle(9, 1).map(text_of, {.parallelism = 2}).repeat(2).prefetch(4);
    const auto all = drain(dataset);
    ASSERT_EQ(all.size(), 110u);
    for (std::size_t stop = 0; stop <= all.size(); stop += 4) {
      auto iterator = dataset.iterate();
      for (std::size_t i = 0; i < stop; ++i) iterator->next();
      auto resumed = dataset.iterate(iterator->save());
      ASSERT_EQ(drain(*resumed), std::vector<std::string>(
                                     all.begin() + static_cast<std::ptrdiff_t>(stop), all.end()));
    }
  }
}

/// Rows that are not a line each, in files with a mark in front, without a last line end, and
/// empty.
std::vector<Path> write_rows(const TempDir& dir, int rows) {
  std::string marked = "\xef\xbb\xbfhead\n";
  std::string plain = "head\n";
  for (int i = 0; i < rows; ++i) {
    std::string& text = i < rows / 3 ? marked : plain;
    text += fmt::format("{},\"{}\"{}", i, i % 5 == 0 ? "a\nb" : "c", i % 7 == 0 ? "\r\n" : "\n");
    if (i % 11 == 0) text += "\n\r\n";
  }
  plain += "last,1";
  return {write_text(dir, "a.csv", marked), write_text(dir, "none.csv", ""),
          write_text(dir, "b.csv", plain), write_text(dir, "head.csv", "head\n")};
}

/// Rows read through a source that counts them.
struct CountedRows {
  std::shared_ptr<int> rows = std::make_shared<int>(0);

  class Source final : public RecordSource {
   public:
    Source(const Path& path, std::shared_ptr<int> rows)
        : source_(open_csv(path, {.skip_header_lines = 1, .skip_empty_lines = true})),
          rows_(std::move(rows)) {}
    bool next(Record& out) override {
      const bool any = source_->next(out);
      if (any) ++*rows_;
      return any;
    }
    void seek(std::uint64_t number) override { source_->seek(number); }
    std::uint64_t position() const override { return source_->position(); }
    std::optional<std::uint64_t> count() const override { return source_->count(); }
    bool random_access() const override { return source_->random_access(); }
    std::string where(std::uint64_t number) const override { return source_->where(number); }
    void note_places(std::uint64_t most) override { source_->note_places(most); }
    std::shared_ptr<const RecordTable> table() const override { return source_->table(); }

   private:
    std::unique_ptr<RecordSource> source_;
    std::shared_ptr<int> rows_;
  };

  Dataset<Record> of(const std::vector<Path>& files) const {
    return from_files(
        files, [rows = rows](const Path& path) { return std::make_unique<Source>(path, rows); });
  }
};

/// Some passes over a part of a shuffle. With `whole` the part is cut from whole passes.
Dataset<std::string> part_of(const Dataset<Record>& records, const ShardOf& part, bool whole) {
  // The elements after skip() are not known.
  const auto input = whole ? records.skip(0) : records;
  return input.shuffle(12, 3).shard(part.count, part.index).map(text_of).repeat(4);
}

TEST(RecordFiles, ReadsTheRowsOfOtherShardsOfAShuffleInTheFirstPassAlone) {
  const TempDir dir;
  const auto files = write_rows(dir, 60);
  for (const ShardOf part : {ShardOf{4, 0}, {4, 3}, {1, 0}, {100, 7}}) {
    const CountedRows all;
    const auto expected = drain(part_of(all.of(files), part, /*whole=*/true));
    EXPECT_EQ(*all.rows, 4 * 61);
    const CountedRows some;
    EXPECT_EQ(drain(part_of(some.of(files), part, /*whole=*/false)), expected);
    EXPECT_EQ(*some.rows, 61);
  }
}

TEST(RecordFiles, ResumesAPartOfAShuffleFromEveryPassInAnother) {
  const TempDir dir;
  const auto files = write_rows(dir, 60);
  const ShardOf part{4, 1};
  const CountedRows counted;
  // Known from the second pass on; a fresh one reads.
  const auto known = part_of(counted.of(files), part, /*whole=*/false);
  const auto all = drain(known);
  const int rows = *counted.rows;
  for (std::size_t stop = 0; stop <= all.size(); ++stop) {
    auto iterator = known.iterate();
    for (std::size_t i = 0; i < stop; ++i) ASSERT_EQ(iterator->next(), all[i]);
    const std::vector<std::string> rest(all.begin() + static_cast<std::ptrdiff_t>(stop), all.end());
    const auto fresh = part_of(CountedRows().of(files), part, /*whole=*/false);
    auto resumed = fresh.iterate(iterator->save());
    ASSERT_EQ(drain(*known.iterate(iterator->save())), rest) << stop;
    if (!rest.empty()) ASSERT_EQ(resumed->next(), rest[0]) << stop;
    // And back: what was saved by reading.
    ASSERT_EQ(drain(*known.iterate(resumed->save())),
              std::vector<std::string>(rest.begin() + (rest.empty() ? 0 : 1), rest.end()))
        << stop;
    ASSERT_EQ(drain(*fresh.iterate(iterator->save())), rest) << stop;
  }
  EXPECT_EQ(*counted.rows, rows);
}

TEST(RecordFiles, GivesTheRowsOfAChangedFileInTheNextPass) {
  const TempDir dir;
  const Path file = write_text(dir, "a.txt", "1\n2\n3\n");
  const auto part = text_lines({file}).shuffle(1, 1).shard(2, 0).map(text_of).repeat(4);
  auto iterator = part.iterate();
  for (const char* const row : {"1", "3", "1", "3"}) EXPECT_EQ(iterator->next(), row);
  // Another file under the name, as an editor leaves it.
  write_text(dir, "new.txt", "40\n50\n60\n70\n");
  std::filesystem::rename(dir / "new.txt", file);
  EXPECT_THAT(drain(*iterator), ElementsAre("40", "60", "40", "60"));
}

TEST(RecordFiles, FailsAtTheSamePlacesInEveryPassOfAPart) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 30; ++i) text += i % 8 == 3 ? "\n" : fmt::format("{}\n", i);
  const std::vector<Path> files{write_text(dir, "a.csv", text),
                                write_text(dir, "b.csv", "x\n\"y\nz\n"), dir / "absent.csv"};
  const auto events = [&](bool whole) {
    auto iterator = part_of(csv_rows(files), {3, 1}, whole).iterate();
    return drain_events(*iterator, [](const std::string& row) { return row; });
  };
  const auto read = events(true);
  EXPECT_GT(std::ranges::count_if(read, [](const auto& row) { return row.starts_with('!'); }), 4);
  EXPECT_EQ(events(false), read);
}

TEST(RecordFiles, ReadsOnlyItsPartOfIndexedFilesFromTheSecondPassOn) {
  const TempDir dir;
  const auto files = write_tfrecords(dir, {20, 0, 31, 4}, true);
  for (const std::uint64_t index : {0, 1, 2}) {
    const ShardOf part{3, index};
    const auto expected = drain(part_of(tfrecords(files), part, /*whole=*/true));
    EXPECT_EQ(drain(part_of(tfrecords(files), part, /*whole=*/false)), expected);
  }
  // Damage that comes later is seen by the part that has the record.
  const auto open = [&](std::uint64_t index) {
    return tfrecords(files).shuffle(1, 1).map(text_of).shard(2, index).repeat(2).iterate();
  };
  auto even = open(0);
  auto odd = open(1);
  for (int i = 0; i < 28; ++i) even->next();
  for (int i = 0; i < 27; ++i) odd->next();
  EXPECT_EQ(even->next(), "0-0");
  EXPECT_EQ(odd->next(), "0-1");
  testing::flip_byte(files[0], 3 * 19 + 12);  // record 3
  EXPECT_EQ(even->next(), "0-2");
  EXPECT_THROW(odd->next(), DataLoss);
  EXPECT_EQ(even->next(), "0-4");
}

TEST(RecordFiles, DoesNotTakeRecordsForOthersWhereBadOnesWerePassedOver) {
  const TempDir dir;
  const auto files = write_tfrecords(dir, {20}, true);
  testing::flip_byte(files[0], 5 * 19 + 12);
  const auto records = tfrecords(files, {.reader = {.skip_bad_records = 3}});
  const ShardOf part{2, 1};
  EXPECT_EQ(drain(part_of(records, part, /*whole=*/false)),
            drain(part_of(records, part, /*whole=*/true)));
}

TEST(RecordFiles, RefusesAPositionOfAnotherNumberOfFiles) {
  const TempDir dir;
  auto files = write_tfrecords(dir, {2, 2}, false);
  const std::string position = tfrecords(files).iterate()->save();
  files.pop_back();
  EXPECT_THROW(tfrecords(files).iterate(position), InvalidArgument);
}

TEST(RecordFiles, TakesPatternsAndNamesOneThatMatchesNothing) {
  const TempDir dir;
  write_bytes(dir / "b.txt", "2\n");
  write_bytes(dir / "a.txt", "1\n");
  write_bytes(dir / "z[1].csv", "3\n");
  EXPECT_THAT(drain(text_lines({dir / "z[1].csv", dir / "?.txt"}).map(text_of)),
              ElementsAre("3", "1", "2"));
  EXPECT_THAT(message_of([&] { text_lines({dir / "*.none"}); }),
              HasSubstr("no file matches " + (dir / "*.none").string()));
  EXPECT_THAT(message_of([] { text_lines({}); }), HasSubstr("glob()"));
}

TEST(ListFiles, GivesTheFilesThatMatchSorted) {
  const TempDir dir;
  write_text(dir, "b.txt", "2\n");
  write_text(dir, "a.txt", "1\n");
  write_text(dir, "c.csv", "3\n");
  const auto lines =
      list_files(dir / "*.txt").interleave([](const Path& file) { return text_lines({file}); }, 2);
  EXPECT_THAT(drain(lines.map(text_of)), ElementsAre("1", "2"));
  EXPECT_THROW(list_files(dir / "*.none"), NotFound);
}

TEST(RecordFiles, ReadsTheRealCensusFileInBatches) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto files = glob(data / "census" / "*.csv");
  if (files.empty()) GTEST_SKIP() << "no census files in " << data;
  const auto serial = drain(text_lines(files).map(text_of));
  EXPECT_GT(serial.size(), 30'000u);
  std::size_t count = 0;
  auto iterator = text_lines(files)
                      .shuffle(400, 1)
                      .map(text_of, {.parallelism = 2})
                      .batch(40)
                      .prefetch(2)
                      .iterate();
  while (const auto batch = iterator->next()) count += batch->size();
  EXPECT_EQ(count, serial.size());
}

}  // namespace
}  // namespace muster
