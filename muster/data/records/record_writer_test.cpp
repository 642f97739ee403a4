#include "muster/data/records/record_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/records/record_index.h"
#include "muster/data/records/record_reader.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::IsEmpty;
using testing::read_bytes;
using testing::TempDir;

TEST(RecordWriter, WritesTheBytesThatTensorFlowWrites) {
  const TempDir folder;
  RecordWriter writer(folder / "a");
  for (const char* record : {"omar", "stringer", "marlo"}) writer.append(record);
  writer.close();
  // The unpacked bytes of wire_vocabulary.tfrecord.gz, which TensorFlow wrote.
  const unsigned char expected[] =
      "\x04\x00\x00\x00\x00\x00\x00\x00\x42\x45\x52\x04omar\x7c\xe6\x44\x05"
      "\x08\x00\x00\x00\x00\x00\x00\x00\xff\x86\x24\x0fstringer\xc5\x40\xb4\xc6"
      "\x05\x00\x00\x00\x00\x00\x00\x00\xea\xb2\x04\x3emarlo\x63\x2b\x7a\x80";
  const std::string_view bytes(reinterpret_cast<const char*>(expected), sizeof(expected) - 1);
  EXPECT_EQ(read_bytes(folder / "a"), bytes);
  EXPECT_EQ(writer.records(), 3u);
  EXPECT_EQ(writer.bytes(), bytes.size());
}

TEST(RecordWriterRealData, UnpackedFileOfTensorFlowIsWhatWeWrite) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const TempDir folder;
  const Path original = data / "tensorflow" / "wire_vocabulary.tfrecord.gz";
  RecordWriter writer(folder / "copy");
  RecordReader reader(original);
  while (const auto record = reader.next()) writer.append(*record);
  writer.close();
  EXPECT_EQ(read_bytes(folder / "copy"), read_all(*open_input(original), 1000));
}

TEST(RecordWriter, AtomicFileAppearsAtCloseAndNotBefore) {
  const TempDir folder;
  RecordWriter writer(folder / "a");
  writer.append("alpha");
  writer.flush();
  EXPECT_FALSE(file_exists(folder / "a"));
  writer.close();
  EXPECT_TRUE(file_exists(folder / "a"));
}

TEST(RecordWriter, AtomicFileLeavesNoTraceWithoutClose) {
  const TempDir folder;
  { RecordWriter(folder / "a").append("alpha"); }
  EXPECT_THAT(file_system_for(folder.path()).list(folder.path()), IsEmpty());
}

TEST(RecordWriter, FlushShowsRecordsOfAFileThatGrowsInPlace) {
  const TempDir folder;
  for (const auto compression : {Compression::kNone, Compression::kGzip}) {
    RecordWriter writer(folder / "a", {.compression = compression, .atomic = false});
    writer.append("alpha");
    writer.flush();
    RecordReader reader(folder / "a");
    EXPECT_EQ(reader.next(), "alpha");
  }
}

TEST(RecordWriter, FileThatGrowsInPlaceIsCompletedByTheDestructor) {
  const TempDir folder;
  { RecordWriter(folder / "a", {.compression = Compression::kZlib, .atomic = false}).append("x"); }
  RecordReader reader(folder / "a");
  EXPECT_EQ(reader.next(), "x");
  EXPECT_FALSE(reader.next());
}

TEST(RecordWriter, RecordsLargerThanTheBufferKeepTheirPlace) {
  const TempDir folder;
  const std::string large(std::size_t{9} << 20, 'l');
  RecordWriter writer(folder / "a");
  for (const std::string_view record :
       {std::string_view("small"), std::string_view(large), std::string_view("last")}) {
    writer.append(record);
  }
  writer.close();
  RecordReader reader(folder / "a");
  EXPECT_EQ(reader.next(), "small");
  EXPECT_EQ(reader.next(), large);
  EXPECT_EQ(reader.next(), "last");
}

TEST(RecordWriter, LevelChangesTheSize) {
  const TempDir folder;
  std::uint64_t sizes[2];
  for (const int level : {0, 9}) {
    RecordWriter writer(folder / "a", {.compression = Compression::kGzip, .level = level});
    writer.append(std::string(100000, 'a'));
    writer.close();
    sizes[level / 9] = file_system_for(folder / "a").status(folder / "a")->size_bytes;
  }
  EXPECT_GT(sizes[0], 100000u);
  EXPECT_LT(sizes[1], 1000u);
}

TEST(RecordWriter, RefusesWhatItCannotWrite) {
  const TempDir folder;
  EXPECT_THROW(RecordWriter(folder / "a", {.compression = Compression::kXz}), InvalidArgument);
  EXPECT_THROW(RecordWriter(folder / "a", {.compression = Compression::kAuto}), InvalidArgument);
  EXPECT_THROW(RecordWriter(folder / "a", {.compression = Compression::kGzip, .level = 10}),
               InvalidArgument);
  EXPECT_THROW(RecordWriter(folder / "none" / "a"), NotFound);
}

TEST(RecordWriter, NothingCanBeAppendedAfterClose) {
  const TempDir folder;
  RecordWriter writer(folder / "a");
  writer.close();
  writer.close();
  EXPECT_THROW(writer.append("x"), FailedPrecondition);
}

TEST(RecordWriter, FullDiskIsAnErrorOfCloseAndOnlyALogLineOfTheDestructor) {
  if (!file_exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  {
    RecordWriter writer("/dev/full", {.atomic = false});
    writer.append("x");
    EXPECT_THROW(writer.close(), ResourceExhausted);
  }
  std::string logged;
  log::set_sink([&](log::Level, std::string_view line) { logged += line; });
  { RecordWriter("/dev/full", {.atomic = false}).append("x"); }
  log::set_sink({});
  EXPECT_THAT(logged, ::testing::HasSubstr("/dev/full is incomplete"));
}

TEST(RecordWriter, WritesTheSideIndexAsItGoes) {
  const TempDir folder;
  RecordWriter writer(folder / "a", {.write_index = true});
  for (int i = 0; i < 1000; ++i) writer.append(std::string(static_cast<std::size_t>(i), 'x'));
  writer.close();
  const RecordIndex written = RecordIndex::load(folder / "a");
  EXPECT_EQ(written.bytes(), RecordIndex::build(folder / "a").bytes());
  EXPECT_EQ(written.count(), 1000u);
}

TEST(RecordWriter, SideIndexOfACompressedFileHasTheCount) {
  const TempDir folder;
  RecordWriter writer(folder / "a", {.compression = Compression::kGzip, .write_index = true});
  writer.append("alpha");
  writer.append("beta");
  writer.close();
  const RecordIndex index = RecordIndex::load(folder / "a");
  EXPECT_EQ(index.count(), 2u);
  EXPECT_FALSE(index.has_offsets());
}

}  // namespace
}  // namespace muster
