#include "muster/base/copy_whole_file.h"

#include <string>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::size_t kCopiedAtOnceBytes = std::size_t{4} << 20;

}  // namespace

void copy_whole_file(const Path& from, const Path& to,
                     const std::function<void(std::uint64_t bytes)>& copied) {
  const auto source = file_system_for(from).open(from);
  AtomicFile target(to);
  std::string piece(kCopiedAtOnceBytes, '\0');
  std::uint64_t bytes = 0;
  while (const std::size_t count = source->read(piece)) {
    target.write(std::string_view(piece).substr(0, count));
    bytes += count;
    if (copied) copied(count);
  }
  if (bytes != source->size()) {
    throw DataLoss("copying {}: {} bytes came of {}", from.string(), bytes, source->size());
  }
  target.commit();
}

}  // namespace muster
