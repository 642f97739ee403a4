#include "muster/checkpoint/bundle_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/checkpoint/bundle_files.h"
#include "muster/checkpoint/bundle_index_internal.h"
#include "muster/checkpoint/data_file_internal.h"
#include "muster/checkpoint/slice_cover_internal.h"
#include "muster/checkpoint/string_tensor_internal.h"
#include "muster/records/crc32c.h"

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
    index.num_shards = options.num_shards;
    index.state_crc = options.state_crc;
    try {
      for (int i = 0; i < options.num_shards; ++i) {
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
    const TensorSpec full{tensor.type, tensor.slice->full_shape};
    const auto whole = index.entries.try_emplace(std::string(tensor.name), BundleEntry{full}).first;
    if (whole->second.spec != full || (whole->second.slices.empty() && whole->second.size != 0)) {
      throw InvalidArgument("tensor '{}': parts of {} and of {} do not go together", tensor.name,
                            to_string(whole->second.spec), to_string(full));
    }
    if (!index.entries.contains(key)) whole->second.slices.push_back(std::move(extents));
    return key;
  }

  BundleEntry write_values(const TensorView& tensor) {
    const auto shard = std::min_element(
        shards.begin(), shards.end(),
        [](const DataFile& left, const DataFile& right) { return left.size() < right.size(); });
    BundleEntry entry{{tensor.type, tensor.shape}};
    entry.shard = static_cast<int>(shard - shards.begin());
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
    const auto file = file_system_for(prefix).create(bundle_index_path(prefix));
    file->write(serialize_bundle_index(index));
    file->sync();
    file->close();
    finished = true;
  }

  // Destructors call it too, so it reports what it cannot do and goes on.
  void remove_files() noexcept {
    try {
      FileSystem& files = file_system_for(prefix);
      for (const DataFile& shard : shards) files.remove(shard.path());
      files.remove(bundle_index_path(prefix));
    } catch (const std::exception& error) {
      log::warning("could not clean up an unfinished bundle prefix={} error=\"{}\"",
                   prefix.string(), error.what());
    }
  }

  Path prefix;
  std::vector<DataFile> shards;
  BundleIndex index;
  bool finished = false;
};

BundleWriter::BundleWriter(const Path& prefix, const BundleWriterOptions& options)
    : impl_(std::make_unique<Impl>(prefix, options)) {}
BundleWriter::~BundleWriter() = default;
BundleWriter::BundleWriter(BundleWriter&&) noexcept = default;
BundleWriter& BundleWriter::operator=(BundleWriter&&) noexcept = default;

void BundleWriter::add(const TensorView& tensor) { impl_->add(tensor); }
void BundleWriter::finish() { impl_->finish(); }

}  // namespace muster
