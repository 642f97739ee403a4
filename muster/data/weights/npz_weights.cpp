#include "muster/data/weights/npz_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/npy.h"
#include "muster/data/records/zip_archive.h"
#include "muster/data/weights/record_storage_internal.h"
#include "muster/data/weights/zip_writer_internal.h"

namespace muster {
namespace {

constexpr std::string_view kNpySuffix = ".npy";
constexpr std::uint64_t kStoredAsItIs = 0;

constexpr std::pair<NpyType, DataType> kNpyTypes[] = {
    {NpyType::kFloat, DataType::kFloat},   {NpyType::kDouble, DataType::kDouble},
    {NpyType::kHalf, DataType::kHalf},     {NpyType::kInt64, DataType::kInt64},
    {NpyType::kInt32, DataType::kInt32},   {NpyType::kInt16, DataType::kInt16},
    {NpyType::kInt8, DataType::kInt8},     {NpyType::kUint8, DataType::kUint8},
    {NpyType::kUint16, DataType::kUint16}, {NpyType::kUint32, DataType::kUint32},
    {NpyType::kUint64, DataType::kUint64}, {NpyType::kBool, DataType::kBool},
};

std::optional<DataType> data_type_of_npy(NpyType type) {
  for (const auto& [theirs, ours] : kNpyTypes) {
    if (theirs == type) return ours;
  }
  return std::nullopt;
}

NpyType npy_type_of(const Weight& weight) {
  for (const auto& [theirs, ours] : kNpyTypes) {
    if (ours == weight.spec.type) return theirs;
  }
  throw InvalidArgument("numpy has no type for tensor '{}', {}", weight.name,
                        to_string(weight.spec));
}

struct MappedArchive {
  MappedArchive(std::shared_ptr<const MappedFile> mapped, const Path& path)
      : file(std::move(mapped)), archive(file->bytes(), path.string()) {}

  std::shared_ptr<const MappedFile> file;
  ZipArchive archive;
};

/// A compressed entry, which is unpacked whenever it is read.
class CompressedStorage final : public WeightStorage {
 public:
  CompressedStorage(std::shared_ptr<const MappedArchive> archive, const ZipEntry& entry)
      : archive_(std::move(archive)), entry_(entry) {}

  std::uint64_t size_bytes() const override { return entry_.bytes; }

  WeightBytes read() const override {
    const auto input = archive_->archive.open(entry_, {});
    const auto content = std::make_shared<std::string>(read_all(*input, entry_.bytes));
    return {.bytes = std::as_bytes(std::span(*content)), .owner = content};
  }

 private:
  std::shared_ptr<const MappedArchive> archive_;
  const ZipEntry& entry_;
};

std::vector<std::int64_t> column_major_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = 1; i < shape.size(); ++i) {
    strides[i] = strides[i - 1] * std::max<std::int64_t>(shape[i - 1], 1);
  }
  return strides;
}

Weight weight_of_entry(const std::shared_ptr<const MappedArchive>& archive, const ZipEntry& entry,
                       const NpyHeader& header, DataType type, const std::string& where) {
  Weight weight{.name = entry.name.substr(0, entry.name.size() - kNpySuffix.size()),
                .spec = {.type = type},
                .first_byte = header.data_offset};
  for (const std::size_t size : header.array.shape) {
    weight.spec.shape.push_back(static_cast<std::int64_t>(size));
  }
  const auto& shape = weight.spec.shape;
  // The elements were counted in 64 bits; these dimensions have 63.
  if (!element_count(shape)) throw DataLoss("{}: the shape {}", where, shape_text(shape));
  weight.strides = header.is_fortran_order ? column_major_strides(shape) : row_major_strides(shape);
  if (entry.method == kStoredAsItIs) {
    weight.storage = std::make_shared<RecordStorage>(archive->file, archive->archive.packed(entry),
                                                     entry, where, /*verify=*/true);
  } else {
    weight.storage = std::make_shared<CompressedStorage>(archive, entry);
  }
  if (header.data_offset + header.data_bytes != weight.storage->size_bytes()) {
    throw DataLoss("{}: {} bytes, but its header of {} bytes says that {} follow", where,
                   weight.storage->size_bytes(), header.data_offset, header.data_bytes);
  }
  check_extent(weight, 0, where);
  return weight;
}

}  // namespace

Weights parse_npz_weights(std::shared_ptr<const MappedFile> file, const Path& path) {
  const auto archive = std::make_shared<const MappedArchive>(std::move(file), path);
  Weights weights{.format = WeightFormat::kNpz, .path = path};
  std::set<std::string_view> names;
  for (const ZipEntry& entry : archive->archive.entries()) {
    const std::string where = fmt::format("{}[{}]", path.string(), entry.name);
    if (!names.insert(entry.name).second) throw DataLoss("{}: it comes twice", where);
    if (!entry.name.ends_with(kNpySuffix)) {
      weights.others.push_back(entry.name);
      continue;
    }
    const NpyHeader header = read_npy_header(*archive->archive.open(entry, {}), where);
    if (const auto type = data_type_of_npy(header.array.type)) {
      weights.tensors.push_back(weight_of_entry(archive, entry, header, *type, where));
    } else {
      weights.others.push_back(entry.name);
    }
  }
  return weights;
}

void write_npz_weights(const Path& path, const std::vector<Weight>& tensors) {
  for (const Weight& weight : tensors) npy_type_of(weight);
  ZipWriter zip(path);
  for (const Weight& weight : tensors) {
    const WeightBytes bytes = row_major_bytes(weight);
    const auto& shape = weight.spec.shape;
    const NpyArray array{
        .type = npy_type_of(weight),
        .shape = {shape.begin(), shape.end()},
        .data = {reinterpret_cast<const char*>(bytes.bytes.data()), bytes.bytes.size()}};
    zip.add(weight.name + std::string(kNpySuffix), encode_npy(array));
  }
  zip.finish();
}

}  // namespace muster
