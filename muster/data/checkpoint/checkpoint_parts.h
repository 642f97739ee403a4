#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// Where a part of a checkpoint goes: data file `shard` of `num_shards`, below `prefix`.
struct PartPlace {
  Path prefix{};
  int shard = 0;
  int num_shards = 1;
};

/// Parts of one checkpoint that other processes write: every writer a data file, whose place in the
/// index it tells. Parts that are not published are removed with this object. Any thread.
class CheckpointParts {
 public:
  /// `name` is the checkpoint's, "model.ckpt-7". Creates the folder that the parts are written
  /// into; in an object store they go to where they stay.
  CheckpointParts(const Path& model_dir, std::string name, std::vector<std::string> writers,
                  std::set<std::string, std::less<>> tensors);
  ~CheckpointParts();
  CheckpointParts(const CheckpointParts&) = delete;
  CheckpointParts& operator=(const CheckpointParts&) = delete;

  /// Tells these parts from those of other attempts: a file name.
  const std::string& id() const { return id_; }
  const std::string& name() const { return name_; }
  const std::vector<std::string>& writers() const { return writers_; }
  /// Data files: one for each writer, and the first for the process that writes the rest.
  int num_shards() const { return static_cast<int>(writers_.size()) + 1; }
  /// Whether a writer writes the tensor of this name.
  bool contains(std::string_view tensor) const { return tensors_.contains(tensor); }
  /// Where a writer puts its data file, as it sees the folder: `id` and `name` are those of the
  /// parts. Throws InvalidArgument for what is no such name.
  static PartPlace place_of(const Path& model_dir, const std::string& id, const std::string& name,
                            int shard, int num_shards);

  /// The writer's data file is on the disk; `index` is BundleWriter::finish_part() of it.
  void take(std::string_view writer, std::string index);
  /// The writer cannot write its part, or is gone. Means nothing when it has.
  void fail(std::string_view writer, const std::string& why);
  void fail_all(const std::string& why);
  /// Why it will not be whole, if it will not.
  std::optional<std::string> failure() const;
  /// Returns when all are written. Throws Unavailable, naming the writer that failed.
  void wait() const;
  /// wait(), and then what take() got, in the order of the writers. Throws Unavailable, too, when a
  /// data file is not seen here in the length that its index tells.
  std::vector<std::string> indexes() const;
  /// After indexes(): moves the data files to where readers look for them.
  void publish();
  bool is_published() const;

 private:
  Path data_file(int shard) const;
  void check_file(int shard, const std::string& index) const;

  const Path model_dir_;
  const std::string id_;
  const std::string name_;
  const bool is_in_place_;
  const std::vector<std::string> writers_;
  const std::set<std::string, std::less<>> tensors_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::optional<std::string>> written_;
  std::string failure_;
  bool is_published_ = false;
};

}  // namespace muster
