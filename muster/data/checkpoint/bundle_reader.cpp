#include "muster/data/checkpoint/bundle_reader.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/data/checkpoint/bundle_content_internal.h"
#include "muster/data/checkpoint/bundle_files.h"

namespace muster {
namespace {

BundleIndex read_index(const Path& prefix, const std::optional<Path>& folder) {
  const Path path = bundle_index_path(folder ? *folder / prefix : prefix);
  const std::string bytes =
      folder ? read_file_inside(*folder, bundle_index_path(prefix)) : read_file(path);
  try {
    return parse_bundle_index(bytes);
  } catch (Error& error) {
    error.add_context(fmt::format("reading {}", path.string()));
    throw;
  }
}

}  // namespace

struct BundleReader::Impl {
  // The prefix is a name in the folder, where there is one.
  Impl(const Path& prefix_, const std::optional<Path>& folder_)
      : prefix(folder_ ? *folder_ / prefix_ : prefix_),
        folder(folder_),
        content(read_index(prefix_, folder_), [this](int i) { return shard(i); }) {
    for (const auto& row : content.index().entries) {
      if (!is_slice_key(row.first)) names.push_back(row.first);
    }
  }

  ShardBytes shard(int number) {
    const Path path = bundle_data_path(prefix, number, content.index().num_shards);
    const std::lock_guard lock(mutex);
    auto& mapping = mappings[number];
    if (mapping == nullptr) {
      if (folder) check_file_inside(*folder, path.lexically_relative(*folder));
      mapping = file_system_for(path).map(path);
    }
    return {mapping->bytes(), mapping, path.string()};
  }

  // An own or a joined tensor's bytes, from the entries that really hold them.
  template <typename Visit>
  void each_stored_entry(std::string_view name, Visit&& visit) const {
    const BundleEntry& entry = content.entry(name);
    if (entry.slices.empty()) visit(entry);
    for (const SliceExtents& extents : entry.slices) {
      const auto part = content.index().entries.find(slice_key(name, extents));
      if (part != content.index().entries.end()) visit(part->second);
    }
  }

  Path prefix;
  /// Whose files alone are read; not set: any.
  std::optional<Path> folder;
  std::mutex mutex;
  std::map<int, std::shared_ptr<const MappedFile>> mappings;
  BundleContent content;
  std::vector<std::string> names;
  std::atomic<bool> verified{false};
};

BundleReader::BundleReader(const Path& prefix)
    : BundleReader(std::make_unique<Impl>(prefix, std::nullopt)) {}
BundleReader::BundleReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BundleReader BundleReader::inside(const Path& folder, const Path& prefix) {
  return BundleReader(std::make_unique<Impl>(prefix, folder));
}
BundleReader::~BundleReader() = default;
BundleReader::BundleReader(BundleReader&&) noexcept = default;
BundleReader& BundleReader::operator=(BundleReader&&) noexcept = default;

const Path& BundleReader::prefix() const { return impl_->prefix; }
int BundleReader::num_shards() const { return impl_->content.index().num_shards; }
std::optional<std::uint32_t> BundleReader::state_crc() const {
  return impl_->content.index().state_crc;
}
const std::vector<std::string>& BundleReader::names() const { return impl_->names; }

bool BundleReader::contains(std::string_view name) const {
  return !is_slice_key(name) && impl_->content.index().entries.contains(name);
}

TensorSpec BundleReader::spec(std::string_view name) const {
  return impl_->content.entry(name).spec;
}

std::uint64_t BundleReader::stored_bytes(std::string_view name) const {
  std::uint64_t bytes = 0;
  impl_->each_stored_entry(name, [&](const BundleEntry& entry) { bytes += entry.size; });
  return bytes;
}

std::vector<std::string> BundleReader::names_by_place() const {
  std::vector<std::tuple<int, std::uint64_t, std::string>> places;
  for (const std::string& name : impl_->names) {
    std::pair first(num_shards(), std::uint64_t{0});
    impl_->each_stored_entry(name, [&](const BundleEntry& entry) {
      first = std::min(first, std::pair(entry.shard, entry.offset));
    });
    places.emplace_back(first.first, first.second, name);
  }
  std::sort(places.begin(), places.end());
  std::vector<std::string> names;
  for (auto& place : places) names.push_back(std::move(std::get<2>(place)));
  return names;
}

TensorData BundleReader::read(std::string_view name) const {
  return impl_->content.read(name, !impl_->verified);
}

std::vector<std::string> BundleReader::read_strings(std::string_view name) const {
  return impl_->content.read_strings(name);
}

void BundleReader::verify() const {
  // In the order of the file, so that a disk reads ahead.
  for (const std::string& name : names_by_place()) impl_->content.check(name);
  impl_->verified = true;
}

}  // namespace muster
