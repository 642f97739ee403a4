#include "muster/data/records/row_table_internal.h"

#include <limits>

namespace muster {
namespace {

bool has_status(const Path& path, const FileStatus& wanted) {
  const auto now = file_system_for(path).status(path);
  return now && now->size_bytes == wanted.size_bytes && now->modified_ns == wanted.modified_ns;
}

class RowTable final : public RecordTable {
 public:
  RowTable(Path path, const FileStatus& status, std::vector<RowPlaces::Place> places)
      : path_(std::move(path)),
        status_(status),
        places_(std::move(places)),
        mapping_(file_system_for(path_).map(path_)) {}

  std::uint64_t size() const override { return places_.size(); }
  Record at(std::uint64_t number) const override {
    const RowPlaces::Place& place = places_[number];
    return {mapping_->bytes().substr(place.offset, place.bytes), mapping_};
  }
  bool is_current() const override {
    return mapping_->bytes().size() == status_.size_bytes && has_status(path_, status_);
  }

 private:
  Path path_;
  FileStatus status_;
  std::vector<RowPlaces::Place> places_;
  std::shared_ptr<const MappedFile> mapping_;
};

}  // namespace

void RowPlaces::add(std::uint64_t offset, std::uint64_t bytes) {
  if (!kept_) return;
  constexpr std::uint64_t kFarthest = std::numeric_limits<std::uint32_t>::max();
  if (places_.size() >= most_ || offset > kFarthest || bytes > kFarthest) {
    kept_ = false;
    places_ = {};
    return;
  }
  places_.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(bytes)});
}

std::shared_ptr<const RecordTable> RowPlaces::table() const {
  if (!kept_ || end_ != status_.size_bytes) return nullptr;
  auto table = std::make_shared<const RowTable>(path_, status_, places_);
  return table->is_current() ? table : nullptr;
}

}  // namespace muster
