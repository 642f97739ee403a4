#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_index_internal.h"
#include "muster/data/checkpoint/index_table_internal.h"
#include "muster/data/checkpoint/ordered_code_internal.h"
#include "muster/tensor_bundle.pb.h"

namespace muster {
namespace {

/// The version that writers of this format state, and that this reader understands.
constexpr int kBundleVersion = 1;
/// TensorFlow's own limit.
constexpr int kMaxRank = 254;
constexpr std::int64_t kWholeDimension = -1;

void take_header(std::string_view bytes, BundleIndex& index) {
  proto::BundleHeaderProto header;
  if (!header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw DataLoss("the header is no BundleHeaderProto");
  }
  if (header.endianness() != proto::BundleHeaderProto::LITTLE) {
    throw Unimplemented("the tensors are big-endian; write them on a little-endian machine");
  }
  const auto& bad = header.version().bad_consumers();
  if (header.version().min_consumer() > kBundleVersion ||
      std::find(bad.begin(), bad.end(), kBundleVersion) != bad.end()) {
    throw Unimplemented("the format's version {} asks for a newer reader",
                        header.version().producer());
  }
  if (header.num_shards() < 1) throw DataLoss("the header counts {} shards", header.num_shards());
  index.num_shards = header.num_shards();
  if (header.has_state()) index.state_crc = header.state().crc32c();
}

TensorSpec checked_spec(const proto::BundleEntryProto& entry) {
  const auto type = data_type_from(entry.dtype());
  if (!type || !is_stored(*type))
    throw Unimplemented("dtype {} is no type of stored tensors", int{entry.dtype()});
  if (entry.shape().unknown_rank() || entry.shape().dim_size() > kMaxRank) {
    throw DataLoss("the shape has no rank, or one above {}", kMaxRank);
  }
  TensorSpec spec{*type, {}};
  for (const auto& dimension : entry.shape().dim()) spec.shape.push_back(dimension.size());
  return spec;
}

void check_size(const BundleEntry& entry, std::int64_t stored_size) {
  const auto count = element_count(entry.spec.shape);
  if (!count) throw DataLoss("the shape {} is impossible", shape_text(entry.spec.shape));
  if (stored_size < 0) throw DataLoss("the size is negative: {}", stored_size);
  if (!entry.slices.empty() || entry.spec.type == DataType::kString) return;
  std::int64_t expected = 0;
  const auto width = static_cast<std::int64_t>(element_bytes(entry.spec.type));
  if (__builtin_mul_overflow(*count, width, &expected) || expected != stored_size) {
    throw DataLoss("{} does not take {} bytes", to_string(entry.spec), stored_size);
  }
}

SliceExtents checked_extents(const proto::TensorSliceProto& slice, const TensorSpec& spec) {
  if (static_cast<std::size_t>(slice.extent_size()) != spec.shape.size()) {
    throw DataLoss("a slice of rank {} of a tensor {}", slice.extent_size(), to_string(spec));
  }
  SliceExtents extents;
  for (int i = 0; i < slice.extent_size(); ++i) {
    const auto& extent = slice.extent(i);
    const std::int64_t dimension = spec.shape[static_cast<std::size_t>(i)];
    const bool whole = extent.has_length_case() != proto::TensorSliceProto::Extent::kLength;
    const std::int64_t length = whole ? dimension : extent.length();
    if (extent.start() < 0 || length < 0 || extent.start() > dimension - length) {
      throw DataLoss("a slice [{}, +{}) leaves a dimension of {}", extent.start(), length,
                     dimension);
    }
    extents.start.push_back(extent.start());
    extents.length.push_back(whole ? kWholeDimension : length);
  }
  return extents;
}

BundleEntry checked_entry(std::string_view bytes, int num_shards) {
  proto::BundleEntryProto stored;
  if (!stored.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw DataLoss("the value is no BundleEntryProto");
  }
  BundleEntry entry{checked_spec(stored), stored.shard_id(), 0, 0, stored.crc32c(), {}};
  if (entry.shard < 0 || entry.shard >= num_shards) {
    throw DataLoss("shard {} of {}", entry.shard, num_shards);
  }
  if (stored.offset() < 0) throw DataLoss("the offset is negative: {}", stored.offset());
  for (const auto& slice : stored.slices()) {
    entry.slices.push_back(checked_extents(slice, entry.spec));
  }
  check_size(entry, stored.size());
  entry.offset = static_cast<std::uint64_t>(stored.offset());
  entry.size = static_cast<std::uint64_t>(stored.size());
  return entry;
}

std::string header_bytes(const BundleIndex& index) {
  proto::BundleHeaderProto header;
  header.set_num_shards(index.num_shards);
  header.mutable_version()->set_producer(kBundleVersion);
  if (index.state_crc) header.mutable_state()->set_crc32c(*index.state_crc);
  return header.SerializeAsString();
}

std::string entry_bytes(const BundleEntry& entry) {
  proto::BundleEntryProto stored;
  stored.set_dtype(static_cast<proto::DataType>(entry.spec.type));
  auto& shape = *stored.mutable_shape();  // present even when the tensor is a scalar
  for (const std::int64_t dimension : entry.spec.shape) shape.add_dim()->set_size(dimension);
  stored.set_shard_id(entry.shard);
  stored.set_offset(static_cast<std::int64_t>(entry.offset));
  stored.set_size(static_cast<std::int64_t>(entry.size));
  stored.set_crc32c(entry.masked_crc);
  for (const SliceExtents& extents : entry.slices) {
    auto& slice = *stored.add_slices();
    for (std::size_t i = 0; i < extents.start.size(); ++i) {
      auto& extent = *slice.add_extent();
      extent.set_start(extents.start[i]);
      if (extents.length[i] != kWholeDimension) extent.set_length(extents.length[i]);
    }
  }
  return stored.SerializeAsString();
}

}  // namespace

BundleIndex parse_bundle_index(std::string_view bytes, bool verify_checksums) {
  BundleIndex index;
  bool has_header = false;
  const auto take_row = [&](std::string_view key, std::string_view value) {
    try {
      if (key.empty()) {
        take_header(value, index);
        has_header = true;
      } else if (!has_header) {
        throw DataLoss("there is no header before it");
      } else {
        index.entries.emplace_hint(index.entries.end(), key,
                                   checked_entry(value, index.num_shards));
      }
    } catch (Error& error) {
      error.add_context(key.empty() ? "header" : fmt::format("tensor '{}'", key));
      throw;
    }
  };
  read_index_table(bytes, take_row, verify_checksums);
  if (!has_header) throw DataLoss("the index has no header");
  return index;
}

std::string serialize_bundle_index(const BundleIndex& index) {
  std::map<std::string, std::string, std::less<>> rows;
  rows.emplace("", header_bytes(index));
  for (const auto& [key, entry] : index.entries) rows.emplace(key, entry_bytes(entry));
  return build_index_table(rows);
}

std::string slice_key(std::string_view name, const SliceExtents& extents) {
  std::string key;
  append_ordered_number(key, 0);
  append_ordered_string(key, name);
  append_ordered_number(key, extents.start.size());
  for (std::size_t i = 0; i < extents.start.size(); ++i) {
    append_ordered_signed(key, extents.start[i]);
    append_ordered_signed(key, extents.length[i]);
  }
  return key;
}

std::vector<std::int64_t> slice_shape(std::span<const std::int64_t> full_shape,
                                      const SliceExtents& extents) {
  std::vector<std::int64_t> shape(full_shape.begin(), full_shape.end());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (extents.length[i] != kWholeDimension) shape[i] = extents.length[i];
  }
  return shape;
}

}  // namespace muster
