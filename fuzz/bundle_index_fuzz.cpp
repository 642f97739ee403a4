#include <string>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_content_internal.h"

// The input is an index, without its checksums, so that mutants get past them; the same bytes serve
// as the data file, so that offsets and sizes have something to point at.

namespace {

using muster::BundleContent;
using muster::BundleEntry;
using muster::BundleIndex;
using muster::DataType;
using muster::SliceExtents;

BundleEntry entry(DataType type, std::vector<std::int64_t> shape, std::uint64_t size) {
  BundleEntry made{{type, std::move(shape)}};
  made.size = size;
  return made;
}

std::string plain_index() {
  BundleIndex index;
  index.entries.emplace("global_step", entry(DataType::kInt64, {}, 8));
  index.entries.emplace("layer/kernel", entry(DataType::kFloat, {3, 4}, 48));
  index.entries.emplace("layer/kernel/Adam", entry(DataType::kFloat, {3, 4}, 48));
  index.entries.emplace("words", entry(DataType::kString, {2}, 20));
  return muster::serialize_bundle_index(index);
}

std::string partitioned_index() {
  BundleIndex index;
  BundleEntry whole = entry(DataType::kFloat, {4, 2}, 0);
  whole.slices = {SliceExtents{{0, 0}, {2, -1}}, SliceExtents{{2, 0}, {2, -1}}};
  for (const SliceExtents& slice : whole.slices) {
    index.entries.emplace(muster::slice_key("table", slice), entry(DataType::kFloat, {2, 2}, 16));
  }
  index.entries.emplace("table", std::move(whole));
  return muster::serialize_bundle_index(index);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const BundleContent content(muster::parse_bundle_index(bytes, /*verify_checksums=*/false),
                                [&](int) {
                                  return muster::ShardBytes{bytes, {}, "fuzz"};
                                });
    for (const auto& row : content.index().entries) {
      try {
        if (row.second.spec.type == DataType::kString) {
          content.read_strings(row.first);
        } else {
          content.read(row.first, /*verify_checksum=*/false);
        }
      } catch (const muster::Error&) {
      }
    }
  } catch (const muster::Error&) {
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() { return {plain_index(), partitioned_index()}; }

// An entry of a few bytes becomes a map node, a key and a shape.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {.bytes_per_input_byte = 512}; }
