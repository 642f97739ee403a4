#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/platform/stores/post_json.h"
#include "muster/platform/stores/register_stores.h"

namespace muster {
namespace {

/// Says of every path what is missing.
class NoFileSystem : public FileSystem {
 public:
  std::unique_ptr<ReadableFile> open(const Path& path) override { refuse(path); }
  std::shared_ptr<const MappedFile> map(const Path& path, Access) override { refuse(path); }
  std::unique_ptr<WritableFile> create(const Path& path) override { refuse(path); }
  std::unique_ptr<WritableFile> append(const Path& path) override { refuse(path); }
  std::optional<FileStatus> status(const Path& path) override { refuse(path); }
  std::vector<std::string> list(const Path& folder) override { refuse(folder); }
  void create_directories(const Path& folder) override { refuse(folder); }
  void remove(const Path& path) override { refuse(path); }
  void remove_all(const Path& path) override { refuse(path); }
  void rename(const Path& from, const Path&) override { refuse(from); }
  void sync_directory(const Path& folder) override { refuse(folder); }

 private:
  [[noreturn]] static void refuse(const Path& path) {
    throw Unimplemented(
        "{}: this muster was built without remote stores; install libcurl4-openssl-dev and "
        "libpugixml-dev, run cmake again, and build",
        path.string());
  }
};

}  // namespace

void register_stores() {
  const auto none = std::make_shared<NoFileSystem>();
  for (const char* scheme : {"s3", "gs", "hdfs", "webhdfs", "swebhdfs", "http", "https"}) {
    register_file_system(scheme, none);
  }
}

namespace stores {

void post_json(const std::string& /*url*/, const std::string& /*body*/) {
  throw Unimplemented(
      "this muster was built without remote stores, and posts nothing; install "
      "libcurl4-openssl-dev and libpugixml-dev, run cmake again, and build");
}

}  // namespace stores
}  // namespace muster
