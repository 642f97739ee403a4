#include "muster/data/checkpoint/bundle_content_internal.h"

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/data/checkpoint/slice_cover_internal.h"
#include "muster/data/checkpoint/string_tensor_internal.h"

namespace muster {
namespace {

// Says which tensor an error is about on its way up.
template <typename Work>
auto about_tensor(std::string_view name, Work&& work) {
  try {
    return work();
  } catch (Error& error) {
    error.add_context(fmt::format("tensor '{}'", name));
    throw;
  }
}

}  // namespace

const BundleEntry& BundleContent::entry(std::string_view name) const {
  const auto found = index_.entries.find(name);
  if (found == index_.entries.end() || is_slice_key(name)) {
    throw NotFound("there is no tensor '{}' in the checkpoint", name);
  }
  return found->second;
}

const BundleEntry& BundleContent::part(std::string_view name, const BundleEntry& whole,
                                       const SliceExtents& extents) const {
  const auto found = index_.entries.find(slice_key(name, extents));
  const TensorSpec expected{whole.spec.type, slice_shape(whole.spec.shape, extents)};
  if (found == index_.entries.end()) {
    throw DataLoss("the part at {} is missing", shape_text(extents.start));
  }
  if (found->second.spec != expected || !found->second.slices.empty()) {
    throw DataLoss("the part at {} is {}, not {}", shape_text(extents.start),
                   to_string(found->second.spec), to_string(expected));
  }
  return found->second;
}

ShardBytes BundleContent::locate(const BundleEntry& entry) const {
  ShardBytes shard = shard_(entry.shard);
  if (entry.offset > shard.bytes.size() || entry.size > shard.bytes.size() - entry.offset) {
    throw DataLoss("{} bytes at {} lie beyond the end of {}, which has {} bytes", entry.size,
                   entry.offset, shard.name, shard.bytes.size());
  }
  shard.bytes = shard.bytes.substr(entry.offset, entry.size);
  return shard;
}

TensorData BundleContent::load(const BundleEntry& entry, bool verify_checksum) const {
  ShardBytes shard = locate(entry);
  if (verify_checksum && mask_crc(crc32c(shard.bytes)) != entry.masked_crc) {
    throw DataLoss("the checksum of {} bytes at {} of {} does not match", entry.size, entry.offset,
                   shard.name);
  }
  const auto* data = reinterpret_cast<const std::byte*>(shard.bytes.data());
  return {entry.spec, {data, shard.bytes.size()}, std::move(shard.owner)};
}

TensorData BundleContent::join(std::string_view name, const BundleEntry& whole,
                               bool verify_checksum) const {
  if (const auto gap = why_not_a_cover(whole.spec.shape, whole.slices)) {
    throw DataLoss("the variable is partitioned, but {}", *gap);
  }
  // All parts are there and of the right size before memory is taken for the whole.
  std::vector<TensorData> parts;
  std::size_t bytes = 0;
  for (const SliceExtents& extents : whole.slices) {
    parts.push_back(load(part(name, whole, extents), verify_checksum));
    bytes += parts.back().bytes.size();
  }
  const auto joined = std::make_shared<std::vector<std::byte>>(bytes);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    copy_slice(parts[i].bytes, whole.slices[i], whole.spec.shape, element_bytes(whole.spec.type),
               *joined);
  }
  return {whole.spec, *joined, joined};
}

TensorData BundleContent::read(std::string_view name, bool verify_checksum) const {
  const BundleEntry& found = entry(name);
  return about_tensor(name, [&] {
    if (found.spec.type == DataType::kString) {
      throw InvalidArgument("its values are strings; read_strings() reads them");
    }
    return found.slices.empty() ? load(found, verify_checksum) : join(name, found, verify_checksum);
  });
}

std::vector<std::string> BundleContent::read_strings(std::string_view name) const {
  const BundleEntry& found = entry(name);
  return about_tensor(name, [&] {
    if (found.spec.type != DataType::kString) {
      throw InvalidArgument("it is {}; read() reads it", to_string(found.spec));
    }
    if (!found.slices.empty()) throw Unimplemented("partitioned string tensors are not supported");
    const ShardBytes shard = locate(found);
    const auto count = static_cast<std::uint64_t>(element_count(found.spec.shape).value_or(0));
    try {
      const auto strings = parse_string_tensor(shard.bytes, count, found.masked_crc);
      return std::vector<std::string>(strings.begin(), strings.end());
    } catch (Error& error) {
      error.add_context(fmt::format("{} bytes at {} of {}", found.size, found.offset, shard.name));
      throw;
    }
  });
}

void BundleContent::check(std::string_view name) const {
  if (entry(name).spec.type == DataType::kString) {
    read_strings(name);
  } else {
    read(name, true);
  }
}

}  // namespace muster
