#include "muster/data/checkpoint/checkpoint_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/object_store.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/data/checkpoint/checkpoint_hash.h"
#include "muster/data/checkpoint/checkpoint_store.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TempDir;

/// A table of ten rows, of which two writers have some, a tensor of the second, and one of the
/// process that writes the rest.
struct Tensors {
  Tensors() : table(20), dense(6), rest(3, 9.0F) {
    std::iota(table.begin(), table.end(), 1.0F);
    std::iota(dense.begin(), dense.end(), -3.0F);
  }
  TensorView rows(std::int64_t first, std::int64_t last) const {
    return {.name = "table",
            .shape = {last - first, 2},
            .bytes = std::as_bytes(std::span(table).subspan(
                static_cast<std::size_t>(first) * 2, static_cast<std::size_t>(last - first) * 2)),
            .slice = TensorSlice{{10, 2}, {first, 0}}};
  }
  TensorView of(std::string_view name, const std::vector<float>& values) const {
    return {.name = name,
            .shape = {static_cast<std::int64_t>(values.size())},
            .bytes = std::as_bytes(std::span(values))};
  }
  std::vector<TensorView> whole() const {
    return {{.name = "table", .shape = {10, 2}, .bytes = std::as_bytes(std::span(table))},
            of("dense", dense),
            of("rest", rest)};
  }
  std::vector<TensorView> part(int shard) const {
    if (shard == 1) return {rows(0, 3), rows(7, 10)};
    return {rows(3, 7), of("dense", dense)};
  }
  std::vector<float> table, dense, rest;
};

std::string write_part(const Path& model_dir, const CheckpointParts& parts, int shard) {
  const PartPlace place =
      CheckpointParts::place_of(model_dir, parts.id(), parts.name(), shard, parts.num_shards());
  BundleWriter writer(place.prefix, {.num_shards = place.num_shards, .shard = place.shard});
  const Tensors tensors;
  for (const TensorView& tensor : tensors.part(shard)) writer.add(tensor);
  return writer.finish_part();
}

std::shared_ptr<CheckpointParts> parts_of(const Path& model_dir, std::int64_t step) {
  return std::make_shared<CheckpointParts>(model_dir, fmt::format("model.ckpt-{}", step),
                                           std::vector<std::string>{"ps:0", "ps:1"},
                                           std::set<std::string, std::less<>>{"table", "dense"});
}

std::vector<TensorView> rest_of(const Tensors& tensors) {
  return {tensors.of("rest", tensors.rest)};
}

/// The files of a folder.
std::vector<std::string> files_in(const Path& folder) {
  return file_system_for(folder).list(folder);
}

TEST(CheckpointParts, MakeOneCheckpointOfTheSameHash) {
  const TempDir folder, other;
  const Tensors tensors;
  CheckpointStore whole(other.path());
  const Path expected = whole.save(3, tensors.whole(), "{}");
  CheckpointStore store(folder.path());
  auto parts = parts_of(folder.path(), 3);
  parts->take("ps:1", write_part(folder.path(), *parts, 2));
  parts->take("ps:0", write_part(folder.path(), *parts, 1));
  const Path prefix = store.save(3, rest_of(tensors), "{}", parts.get());
  parts.reset();
  const OpenCheckpoint opened = open_checkpoint(prefix);
  EXPECT_EQ(opened.bundle.num_shards(), 3);
  EXPECT_THAT(opened.bundle.names(), ElementsAre("dense", "rest", "table"));
  EXPECT_EQ(checkpoint_hash(opened.bundle), checkpoint_hash(BundleReader(expected)));
  EXPECT_THAT(files_in(folder.path()),
              ElementsAre("checkpoint", "model.ckpt-3.data-00000-of-00003",
                          "model.ckpt-3.data-00001-of-00003", "model.ckpt-3.data-00002-of-00003",
                          "model.ckpt-3.index", "model.ckpt-3.state.json"));
}

TEST(CheckpointParts, AreWaitedFor) {
  const TempDir folder;
  const Tensors tensors;
  CheckpointStore store(folder.path());
  const auto parts = parts_of(folder.path(), 3);
  auto saved = std::async(std::launch::async,
                          [&] { return store.save(3, rest_of(tensors), {}, parts.get()); });
  parts->take("ps:0", write_part(folder.path(), *parts, 1));
  EXPECT_FALSE(latest_checkpoint(folder.path()));
  parts->take("ps:1", write_part(folder.path(), *parts, 2));
  EXPECT_EQ(saved.get(), folder / "model.ckpt-3");
}

TEST(CheckpointParts, OneThatIsLostLeavesTheOlderCheckpointAndNoFiles) {
  const TempDir folder;
  const Tensors tensors;
  CheckpointStore store(folder.path());
  store.save(2, tensors.whole());
  const auto before = files_in(folder.path());
  auto parts = parts_of(folder.path(), 3);
  parts->take("ps:0", write_part(folder.path(), *parts, 1));
  parts->fail("ps:0", "it came too late for this to count");
  parts->fail("ps:1", "connection closed by peer");
  try {
    store.save(3, rest_of(tensors), {}, parts.get());
    FAIL() << "a part was missing";
  } catch (const Unavailable& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("ps:1 has not written its part: connection closed by peer"));
  }
  parts.reset();
  EXPECT_EQ(files_in(folder.path()), before);
  EXPECT_EQ(latest_checkpoint(folder.path()), folder / "model.ckpt-2");
}

TEST(CheckpointParts, AFileThatIsShorterThanItsIndexTellsIsNotPublished) {
  const TempDir folder;
  CheckpointStore store(folder.path());
  const auto parts = parts_of(folder.path(), 3);
  parts->take("ps:0", write_part(folder.path(), *parts, 1));
  parts->take("ps:1", write_part(folder.path(), *parts, 2));
  std::filesystem::resize_file(folder / parts->id() / "model.ckpt-3.data-00002-of-00003", 11);
  EXPECT_THROW(store.save(3, rest_of(Tensors()), {}, parts.get()), Unavailable);
  EXPECT_FALSE(latest_checkpoint(folder.path()));
}

TEST(CheckpointParts, AFailedSaveCanBeTriedAgainWithThem) {
  const TempDir folder;
  const Tensors tensors;
  CheckpointStore store(folder.path());
  const auto parts = parts_of(folder.path(), 3);
  parts->take("ps:0", write_part(folder.path(), *parts, 1));
  parts->take("ps:1", write_part(folder.path(), *parts, 2));
  const std::vector<TensorView> twice{tensors.of("rest", tensors.rest),
                                      tensors.of("rest", tensors.rest)};
  EXPECT_THROW(store.save(3, twice, {}, parts.get()), InvalidArgument);
  EXPECT_EQ(store.save(3, rest_of(tensors), {}, parts.get()), folder / "model.ckpt-3");
}

TEST(CheckpointParts, ThoseOfAWriterThatWasKilledAreRemovedByTheNext) {
  const TempDir folder;
  const auto parts = parts_of(folder.path(), 3);
  write_part(folder.path(), *parts, 1);
  const CheckpointStore next(folder.path());
  EXPECT_THAT(files_in(folder.path()), IsEmpty());
}

TEST(CheckpointParts, ACheckpointOfPartsIsDeletedAsAWhole) {
  const TempDir folder;
  const Tensors tensors;
  CheckpointStore store(folder.path(), {.keep_checkpoint_max = 1});
  const auto parts = parts_of(folder.path(), 3);
  parts->take("ps:0", write_part(folder.path(), *parts, 1));
  parts->take("ps:1", write_part(folder.path(), *parts, 2));
  store.save(3, rest_of(tensors), {}, parts.get());
  store.save(4, tensors.whole());
  EXPECT_THAT(files_in(folder.path()),
              ElementsAre("checkpoint", "model.ckpt-4.data-00000-of-00001", "model.ckpt-4.index"));
}

TEST(CheckpointParts, SavingAStepAgainLeavesNoPartOfTheFirst) {
  const TempDir folder;
  const Tensors tensors;
  CheckpointStore store(folder.path());
  store.save(3, tensors.whole());
  auto parts = parts_of(folder.path(), 3);
  parts->take("ps:0", write_part(folder.path(), *parts, 1));
  parts->take("ps:1", write_part(folder.path(), *parts, 2));
  store.save(3, rest_of(tensors), {}, parts.get());
  parts.reset();
  EXPECT_THAT(files_in(folder.path()), Not(Contains("model.ckpt-3.data-00000-of-00001")));
  open_checkpoint(folder / "model.ckpt-3").bundle.verify();
}

TEST(CheckpointParts, RefuseNamesThatLeadElsewhere) {
  const auto place = [](const std::string& id, const std::string& name) {
    return CheckpointParts::place_of("/runs", id, name, 1, 2).prefix;
  };
  EXPECT_EQ(place(".m-3.tmp-parts-7-0", "m-3"), "/runs/.m-3.tmp-parts-7-0/m-3");
  EXPECT_THROW(place("../.m-3.tmp-parts-7-0", "m-3"), InvalidArgument);
  EXPECT_THROW(place(".m-3.tmp-parts-7-0/../../x", "m-3"), InvalidArgument);
  EXPECT_THROW(place("..", "m-3"), InvalidArgument);
  EXPECT_THROW(place(".../x.tmp-parts-", "../x"), InvalidArgument);
}

/// Files of a folder as an object store has them: nothing is renamed.
class FolderAsStore : public ObjectStore {
 public:
  explicit FolderAsStore(Path root) : root_(std::move(root)) {}

  std::unique_ptr<ReadableFile> open(const Path& path) override { return disk().open(at(path)); }
  std::shared_ptr<const MappedFile> map(const Path& path, Access access) override {
    return disk().map(at(path), access);
  }
  std::unique_ptr<WritableFile> create(const Path& path) override {
    return disk().create(at(path));
  }
  std::unique_ptr<WritableFile> append(const Path& path) override {
    return disk().append(at(path));
  }
  std::optional<FileStatus> status(const Path& path) override { return disk().status(at(path)); }
  std::vector<std::string> list(const Path& folder) override { return disk().list(at(folder)); }
  void create_directories(const Path& folder) override { disk().create_directories(at(folder)); }
  void remove(const Path& path) override { disk().remove(at(path)); }
  void remove_all(const Path& path) override { disk().remove_all(at(path)); }
  void rename(const Path& /*from*/, const Path& to) override {
    throw Unimplemented("{} is renamed", to.string());
  }
  void sync_directory(const Path& /*folder*/) override {}
  std::unique_ptr<WritableFile> create_growing(const Path& path) override { return create(path); }
  std::shared_ptr<void> claim(const Path& /*folder*/) override { return nullptr; }
  std::unique_ptr<WritableFile> create_new(const Path& path) override { return create(path); }

 private:
  FileSystem& disk() const { return file_system_for(root_); }
  Path at(const Path& path) const {
    const std::string text = path.string();
    return root_ / text.substr(text.find("//") + 2);
  }
  const Path root_;
};

TEST(CheckpointParts, GoToWhereTheyStayInAnObjectStore) {
  const TempDir disk;
  register_file_system("parts", std::make_shared<FolderAsStore>(disk.path()));
  const Path folder = "parts://bucket/run";
  const Tensors tensors;
  CheckpointStore store(folder);
  store.save(2, tensors.whole(), "{}");
  const auto before = files_in(folder);
  auto lost = parts_of(folder, 3);
  lost->take("ps:0", write_part(folder, *lost, 1));
  lost->fail("ps:1", "connection closed by peer");
  EXPECT_THROW(store.save(3, rest_of(tensors), "{}", lost.get()), Unavailable);
  EXPECT_EQ(latest_checkpoint(folder), folder / "model.ckpt-2");
  lost.reset();
  auto parts = parts_of(folder, 3);
  parts->take("ps:0", write_part(folder, *parts, 1));
  parts->take("ps:1", write_part(folder, *parts, 2));
  const Path prefix = store.save(3, rest_of(tensors), "{}", parts.get());
  parts.reset();
  EXPECT_EQ(checkpoint_hash(open_checkpoint(prefix).bundle),
            checkpoint_hash(BundleReader(folder / "model.ckpt-2")));
  EXPECT_EQ(files_in(folder).size(), before.size() + 5);
}

TEST(BundleParts, MergeRefusesATensorTwiceAndPartsOfOtherBundles) {
  const TempDir folder;
  const Tensors tensors;
  const auto part = [&](const std::string& name, int shard, int shards) {
    BundleWriter writer(folder / name, {.num_shards = shards, .shard = shard});
    writer.add(tensors.of("dense", tensors.dense));
    return writer.finish_part();
  };
  BundleWriter writer(folder / "whole", {.num_shards = 2, .shard = 0});
  EXPECT_THROW(writer.merge(part("a", 1, 3)), InvalidArgument);
  EXPECT_THROW(writer.merge(part("b", 0, 2)), InvalidArgument);
  EXPECT_THROW(writer.merge("no index"), DataLoss);
  writer.merge(part("c", 1, 2));
  EXPECT_THROW(writer.merge(part("c", 1, 2)), InvalidArgument);
}

TEST(BundleParts, ATableOfWhichRowsAreMissingIsNoBundle) {
  const TempDir folder;
  const Tensors tensors;
  BundleWriter first(folder / "whole", {.num_shards = 2, .shard = 1});
  first.add(tensors.rows(0, 4));
  BundleWriter writer(folder / "whole", {.num_shards = 2, .shard = 0});
  writer.merge(first.finish_part());
  writer.add(tensors.rows(5, 10));
  EXPECT_THROW(writer.finish(), InvalidArgument);
}

}  // namespace
}  // namespace muster
