#include "muster/data/checkpoint/bundle_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/bundle_files.h"
#include "muster/data/checkpoint/bundle_index_internal.h"
#include "muster/data/checkpoint/data_file_internal.h"
#include "muster/data/checkpoint/slice_cover_internal.h"
#include "muster/data/checkpoint/string_tensor_internal.h"

namespace muster {
namespace {

// More would not fit the five digits of the file names.
constexpr int kMaxShards = 99'999;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::int64_t checked_count(const TensorView& tensor) {
  if (tensor.name.empty() || is_slice_key(tensor.name)) {
    throw InvalidArgument("a tensor needs a name that does not begin with a zero byte");
  }
  const auto count = element_count(tensor.shape);
  if (!count) {
    throw InvalidArgument("tensor '{}': the shape {} is impossible", tensor.name,
                          shape_text(tensor.shape));
  }
  return *count;
}

void check_values(const TensorView& tensor) {
  const auto count = static_cast<std::uint64_t>(checked_count(tensor));
  const bool is_string = tensor.type == DataType::kString;
  const std::uint64_t given = is_string ? tensor.strings.size() : tensor.bytes.size();
  const std::uint64_t width = is_string ? 1 : element_bytes(tensor.type);
  if (width == 0 || given % width != 0 || given / width != count) {
    throw InvalidArgument("tensor '{}': {} {} are given for {}", tensor.name, given,
                          is_string ? "strings" : "bytes",
                          to_string(TensorSpec{tensor.type, tensor.shape}));
  }
}

// TensorFlow writes a dimension that is not cut as "the whole of it".
SliceExtents extents_of(const TensorView& tensor) {
  const TensorSlice& slice = *tensor.slice;
  if (slice.start.size() != tensor.shape.size() || slice.full_shape.size() != tensor.shape.size()) {
    throw InvalidArgument("tensor '{}': a part of rank {} of a tensor of rank {}", tensor.name,
                          tensor.shape.size(), slice.full_shape.size());
  }
  SliceExtents extents;
  for (std::size_t i = 0; i < slice.start.size(); ++i) {
    const bool whole = slice.start[i] == 0 && tensor.shape[i] == slice.full_shape[i];
    if (slice.start[i] < 0 || slice.start[i] > slice.full_shape[i] - tensor.shape[i]) {
      throw InvalidArgument("tensor '{}': the part at {} with shape {} leaves the shape {}",
                            tensor.name, shape_text(slice.start), shape_text(tensor.shape),
                            shape_text(slice.full_shape));
    }
    extents.start.push_back(slice.start[i]);
    extents.length.push_back(whole ? -1 : tensor.shape[i]);
  }
  return extents;
}

}  // namespace

struct BundleWriter::Impl {
  Impl(const Path& prefix_, const BundleWriterOptions& options) : prefix(prefix_) {
    if (options.num_shards < 1 || options.num_shards > kMaxShards) {
      throw InvalidArgument("num_shards must be in 1 to {}: {}", kMaxShards, options.num_shards);
    }
    if (options.shard && (*options.shard < 0 || *options.shard >= options.num_shards)) {
      throw InvalidArgument("there is no data file {} of {}", *options.shard, options.num_shards);
    }
    index.num_shards = options.num_shards;
    index.state_crc = options.state_crc;
    first_shard = options.shard.value_or(0);
    const int end = options.shard ? *options.shard + 1 : options.num_shards;
    try {
      for (int i = first_shard; i < end; ++i) {
        shards.emplace_back(bundle_data_path(prefix, i, options.num_shards));
      }
    } catch (...) {
      remove_files();
      throw;
    }
  }
  ~Impl() {
    if (!finished) remove_files();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void add(const TensorView& tensor) {
    check_values(tensor);
    std::string key(tensor.name);
    if (tensor.slice) key = add_part(tensor);
    if (index.entries.contains(key)) {
      throw InvalidArgument("tensor '{}' was added before", tensor.name);
    }
    index.entries.emplace(std::move(key), write_values(tensor));
  }

  // Records the part in the whole variable's entry and returns the key of the part's own.
  std::string add_part(const TensorView& tensor) {
    SliceExtents extents = extents_of(tensor);
    std::string key = slice_key(tensor.name, extents);
    BundleEntry& whole = partitioned(tensor.name, {tensor.type, tensor.slice->full_shape});
    if (!index.entries.contains(key)) whole.slices.push_back(std::move(extents));
    return key;
  }

  // The entry of a variable whose parts have entries of their own.
  BundleEntry& partitioned(std::string_view name, const TensorSpec& full) {
    BundleEntry& whole =
        index.entries.try_emplace(std::string(name), BundleEntry{full}).first->second;
    if (whole.spec != full || (whole.slices.empty() && whole.size != 0)) {
      throw InvalidArgument("tensor '{}': parts of {} and of {} do not go together", name,
                            to_string(whole.spec), to_string(full));
    }
    return whole;
  }

  void merge(std::string_view part) {
    const BundleIndex theirs = parse_bundle_index(part);
    if (theirs.num_shards != index.num_shards) {
      throw InvalidArgument("a part of a bundle of {} data files, where there are {}",
                            theirs.num_shards, index.num_shards);
    }
    for (const auto& [key, entry] : theirs.entries) {
      if (!entry.slices.empty()) {
        auto& slices = partitioned(key, entry.spec).slices;
        slices.insert(slices.end(), entry.slices.begin(), entry.slices.end());
        continue;
      }
      const int own = entry.shard - first_shard;
      if (own >= 0 && static_cast<std::size_t>(own) < shards.size()) {
        throw InvalidArgument("tensor '{}' of a part is said to be in {}", key,
                              shards[static_cast<std::size_t>(own)].path().string());
      }
      if (!index.entries.emplace(key, entry).second) {
        throw InvalidArgument("tensor '{}' was added before", key);
      }
    }
  }

  std::string finish_part() {
    for (DataFile& shard : shards) shard.finish();
    finished = true;
    return serialize_bundle_index(index);
  }

  BundleEntry write_values(const TensorView& tensor) {
    const auto shard = std::min_element(
        shards.begin(), shards.end(),
        [](const DataFile& left, const DataFile& right) { return left.size() < right.size(); });
    BundleEntry entry{{tensor.type, tensor.shape}};
    entry.shard = first_shard + static_cast<int>(shard - shards.begin());
    entry.offset = shard->size();
    try {
      entry.masked_crc = mask_crc(append_values(*shard, tensor));
    } catch (Error& error) {
      error.add_context(fmt::format("tensor '{}'", tensor.name));
      throw;
    }
    entry.size = shard->size() - entry.offset;
    return entry;
  }

  static std::uint32_t append_values(DataFile& file, const TensorView& tensor) {
    if (tensor.type != DataType::kString) return file.append(as_text(tensor.bytes));
    const StringTensorHead head = string_tensor_head(tensor.strings);
    file.append(head.bytes);
    std::uint32_t crc = head.crc;
    for (const std::string_view text : tensor.strings) crc = file.append(text, crc);
    return crc;
  }

  void finish() {
    for (const auto& [key, entry] : index.entries) {
      if (entry.slices.empty()) continue;
      if (const auto gap = why_not_a_cover(entry.spec.shape, entry.slices)) {
        throw InvalidArgument("tensor '{}': {}", key, *gap);
      }
    }
    for (DataFile& shard : shards) shard.finish();
    writes_index = true;
    const auto file = file_system_for(prefix).create(bundle_index_path(prefix));
    file->write(serialize_bundle_index(index));
    file->sync();
    file->close();
    finished = true;
  }

  // Destructors call it too, so it reports what it cannot do and continues.
  void remove_files() noexcept {
    try {
      FileSystem& files = file_system_for(prefix);
      for (const DataFile& shard : shards) files.remove(shard.path());
      if (writes_index) files.remove(bundle_index_path(prefix));
    } catch (const std::exception& error) {
      log::warning("could not clean up an unfinished bundle prefix={} error=\"{}\"",
                   prefix.string(), error.what());
    }
  }

  Path prefix;
  /// The number of the first of `shards`.
  int first_shard = 0;
  std::vector<DataFile> shards;
  BundleIndex index;
  bool writes_index = false;
  bool finished = false;
};

BundleWriter::BundleWriter(const Path& prefix, const BundleWriterOptions& options)
    : impl_(std::make_unique<Impl>(prefix, options)) {}
BundleWriter::~BundleWriter() = default;
BundleWriter::BundleWriter(BundleWriter&&) noexcept = default;
BundleWriter& BundleWriter::operator=(BundleWriter&&) noexcept = default;

void BundleWriter::add(const TensorView& tensor) { impl_->add(tensor); }
void BundleWriter::finish() { impl_->finish(); }
std::string BundleWriter::finish_part() { return impl_->finish_part(); }
void BundleWriter::merge(std::string_view part) { impl_->merge(part); }

}  // namespace muster
