#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "muster/data/records/zip_archive.h"
#include "muster/data/weights/weight.h"

namespace muster {

/// A file of the archive, which is a storage. Its checksum is looked at when it is read first.
class RecordStorage final : public WeightStorage {
 public:
  RecordStorage(std::shared_ptr<const MappedFile> file, std::string_view bytes, ZipEntry entry,
                std::string path, bool verify)
      : file_(std::move(file)),
        bytes_(bytes),
        entry_(std::move(entry)),
        path_(std::move(path)),
        verify_(verify) {}

  std::uint64_t size_bytes() const override { return bytes_.size(); }

  WeightBytes read() const override;

 private:
  void verify() const;

  std::shared_ptr<const MappedFile> file_;
  std::string_view bytes_;
  ZipEntry entry_;
  std::string path_;
  bool verify_;
  mutable std::once_flag verified_;
};

}  // namespace muster
