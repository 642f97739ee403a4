#include "muster/data/weights/torch_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/zip_archive.h"
#include "muster/data/weights/pickle_reader.h"
#include "muster/data/weights/record_storage_internal.h"

namespace muster {
namespace {

constexpr std::uint64_t kStoredMethod = 0;
constexpr std::string_view kPickleName = "data.pkl";
// First bytes of files from before PyTorch 1.6: a pickle of a magic number, or a tar archive.
constexpr std::string_view kOldMagic{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
                                     14};
// Values of a pickle take at most this many times the file.
constexpr std::uint64_t kMostTimesFile = 8;
constexpr std::uint64_t kLeastBytes = std::uint64_t{1} << 20;

class TorchFileParser {
 public:
  TorchFileParser(std::shared_ptr<const MappedFile> file, const Path& path,
                  const OpenWeightsOptions& options)
      : file_(std::move(file)),
        path_(path.string()),
        options_(options),
        archive_(file_->bytes(), path_) {
    for (const ZipEntry& entry : archive_.entries()) by_name_.emplace(entry.name, &entry);
  }

  Weights parse() {
    const ZipEntry& pickle = find_pickle();
    check_byte_order();
    const std::string_view text = stored(pickle);
    if (text.size() > std::min<std::uint64_t>(options_.limits.header_bytes, UINT32_MAX)) {
      throw ResourceExhausted("{}: {} of {} bytes; at most {} are read", path_, pickle.name,
                              text.size(), options_.limits.header_bytes);
    }
    const std::uint64_t most =
        std::max(kLeastBytes, kMostTimesFile * static_cast<std::uint64_t>(file_->bytes().size()));
    const auto offset = static_cast<std::uint64_t>(text.data() - file_->bytes().data());
    PickledTensors pickled = read_pickled_tensors(text, offset, path_, most, options_.key);
    Weights weights{
        .format = WeightFormat::kTorch, .path = path_, .others = std::move(pickled.others)};
    for (PickledTensor& tensor : pickled.tensors) weights.tensors.push_back(weight_of(tensor));
    check_names(weights.tensors);
    return weights;
  }

 private:
  const ZipEntry& find_pickle() {
    for (const ZipEntry& entry : archive_.entries()) {
      if (entry.name != kPickleName && !entry.name.ends_with("/data.pkl")) continue;
      folder_ = entry.name.substr(0, entry.name.size() - kPickleName.size());
      return entry;
    }
    throw DataLoss("{}: a ZIP archive without a {}: no file of PyTorch's", path_, kPickleName);
  }

  void check_byte_order() const {
    const auto found = by_name_.find(folder_ + "byteorder");
    if (found == by_name_.end()) return;
    if (stored(*found->second) != "little") {
      throw Unimplemented("{}: its numbers are big-endian; save it on another machine", path_);
    }
  }

  std::string_view stored(const ZipEntry& entry) const {
    if (entry.method != kStoredMethod) {
      throw Unimplemented("{}: {} at offset {} is compressed, which PyTorch does not do", path_,
                          entry.name, entry.offset);
    }
    return archive_.packed(entry);
  }

  Weight weight_of(PickledTensor& tensor) {
    auto storage = storage_of_key(tensor);
    Weight weight{.name = std::move(tensor.name),
                  .spec = {.type = tensor.type, .shape = std::move(tensor.shape)},
                  .strides = std::move(tensor.strides),
                  .storage = std::move(storage),
                  .first_byte = tensor.first_byte};
    check_extent(weight, options_.limits.expanded_bytes, path_);
    return weight;
  }

  std::shared_ptr<const WeightStorage> storage_of_key(const PickledTensor& tensor) {
    auto& storage = storages_[tensor.storage];
    if (!storage) {
      const auto found = by_name_.find(folder_ + "data/" + tensor.storage);
      if (found == by_name_.end()) {
        throw DataLoss("{}: tensor '{}': the archive has no {}data/{}", path_, tensor.name, folder_,
                       tensor.storage);
      }
      const ZipEntry& entry = *found->second;
      storage = std::make_shared<RecordStorage>(file_, stored(entry), entry, path_,
                                                options_.verify_checksums);
    }
    if (storage->size_bytes() < tensor.storage_bytes) {
      throw DataLoss("{}: tensor '{}': {}data/{} has {} bytes where the pickle says {}", path_,
                     tensor.name, folder_, tensor.storage, storage->size_bytes(),
                     tensor.storage_bytes);
    }
    return storage;
  }

  void check_names(const std::vector<Weight>& tensors) const {
    std::vector<std::string_view> names;
    names.reserve(tensors.size());
    for (const Weight& weight : tensors) names.push_back(weight.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) throw DataLoss("{}: tensor '{}' comes twice", path_, *twice);
  }

  std::shared_ptr<const MappedFile> file_;
  std::string path_;
  const OpenWeightsOptions& options_;
  ZipArchive archive_;
  std::unordered_map<std::string_view, const ZipEntry*> by_name_;
  std::string folder_;
  std::unordered_map<std::string, std::shared_ptr<const WeightStorage>> storages_;
};

}  // namespace

Weights parse_torch_file(std::shared_ptr<const MappedFile> file, const Path& path,
                         const OpenWeightsOptions& options) {
  if (file->bytes().starts_with(kOldMagic)) {
    throw Unimplemented(
        "{}: a file of PyTorch before 1.6; load it with torch.load and save it again with "
        "torch.save",
        path.string());
  }
  return TorchFileParser(std::move(file), path, options).parse();
}

}  // namespace muster
