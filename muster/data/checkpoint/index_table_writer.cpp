#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

#include "muster/base/error.h"
#include "muster/data/checkpoint/index_table_internal.h"

namespace muster {
namespace {

constexpr std::size_t kBlockBytes = 256 * 1024;
constexpr int kRestartInterval = 16;

/// The index is small beside the data, so it is built in memory and written in one go.
class StringFile : public leveldb::WritableFile {
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

}  // namespace

std::string build_index_table(const std::map<std::string, std::string, std::less<>>& rows) {
  leveldb::Options options;
  options.block_size = kBlockBytes;
  options.block_restart_interval = kRestartInterval;
  options.compression = leveldb::kNoCompression;
  StringFile file;
  leveldb::TableBuilder builder(options, &file);
  for (const auto& [key, value] : rows) builder.Add(key, value);
  const leveldb::Status status = builder.Finish();
  if (!status.ok()) throw Internal("building an index table: {}", status.ToString());
  return std::move(file.bytes);
}

}  // namespace muster
