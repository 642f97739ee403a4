#include "muster/data/records/line_file.h"

#include <string>
#include <utility>

#include "muster/data/records/compression_internal.h"
#include "muster/data/records/row_source_internal.h"
#include "muster/data/records/text_lines.h"

namespace muster {
namespace {

class FileFrom final : public InputStream {
 public:
  FileFrom(const Path& path, std::uint64_t offset) : file_(file_system_for(path).open(path)) {
    file_->seek(offset);
  }
  std::size_t read(std::span<char> out) override { return file_->read(out); }

 private:
  std::unique_ptr<ReadableFile> file_;
};

}  // namespace

std::unique_ptr<LineFile> open_line_file(const Path& path) {
  RowSource::OpenAt open_at;
  if (compression_internal::is_plain(path, Compression::kAuto)) {
    open_at = [path](std::uint64_t offset) { return std::make_unique<FileFrom>(path, offset); };
  }
  return std::make_unique<RowSource>(
      path.string(), [path] { return open_input(path); },
      RowSourceOptions{.max_row_bytes = TextLineOptions().max_line_bytes}, std::move(open_at));
}

}  // namespace muster
