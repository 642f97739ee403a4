#include "muster/nn/torch_script/torch_script_file.h"

#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/zip_archive.h"

namespace muster {
namespace {

/// A module may be this much larger than its file: records are stored as they are, except
/// for those that help a debugger.
constexpr std::uint64_t kMostExpansion = 8;

class MemoryReader final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MemoryReader(std::shared_ptr<const std::string> bytes) : bytes_(std::move(bytes)) {}

  std::size_t size() const override { return bytes_->size(); }
  std::size_t read(std::uint64_t position, void* buffer, std::size_t count,
                   const char* /*what*/) const override {
    if (position >= bytes_->size()) return 0;
    const std::size_t there = std::min<std::size_t>(count, bytes_->size() - position);
    std::memcpy(buffer, bytes_->data() + position, there);
    return there;
  }

 private:
  std::shared_ptr<const std::string> bytes_;
};

bool has_entry(const ZipArchive& archive, std::string_view ending) {
  return std::ranges::any_of(archive.entries(),
                             [&](const ZipEntry& entry) { return entry.name.ends_with(ending); });
}

// libtorch does not look at the checksums of values in every version.
void check_content(const ZipArchive& archive) {
  std::array<char, 1 << 16> part{};
  for (const ZipEntry& entry : archive.entries()) {
    const auto content = archive.open(entry, {});
    while (content->read(part) > 0) {
    }
  }
}

// The archive's directory and checksums, and what it says of the file; libtorch reads the rest.
void check_archive(const std::string& bytes, const std::string& path) {
  if (!bytes.starts_with("PK")) {
    throw DataLoss(
        "{} is no TorchScript file: it is no ZIP archive; torch.jit.script(module).save(\"{}\") "
        "writes one",
        path, path);
  }
  const ZipArchive archive(bytes, path);
  std::uint64_t all = 0;
  for (const ZipEntry& entry : archive.entries()) {
    if (__builtin_add_overflow(all, entry.bytes, &all) || all / kMostExpansion > bytes.size()) {
      throw DataLoss("{}: its records are said to have over {} times the file's {} bytes", path,
                     kMostExpansion, bytes.size());
    }
  }
  check_content(archive);
  if (has_entry(archive, "/constants.pkl")) return;
  if (has_entry(archive, "serialized_exported_program.json") ||
      has_entry(archive, "models/model.json")) {
    throw DataLoss(
        "{} is a file of torch.export and no TorchScript file: save the module by "
        "torch.jit.script(module).save(...) or torch.jit.trace(module, example).save(...)",
        path);
  }
  if (has_entry(archive, "/data.pkl")) {
    throw DataLoss(
        "{} holds weights, as torch.save writes them, and no code: load them into a model by "
        "load_weights(), or save the module by torch.jit.script(module).save(...)",
        path);
  }
  throw DataLoss("{} is a ZIP archive without constants.pkl: no TorchScript file", path);
}

// Text of libtorch's in one line: the first, and what the next one points at.
std::string first_lines(std::string_view text) {
  const auto end = text.find("\n\n");
  std::string lines(text.substr(0, end));
  std::ranges::replace(lines, '\n', ' ');
  return lines;
}

[[noreturn]] void throw_load_error(const std::string& path, std::string_view text) {
  if (text.find("Unknown builtin op") != text.npos || text.find("Unknown type name") != text.npos ||
      text.find("not registered") != text.npos ||
      text.find("Couldn't find an operator") != text.npos) {
    throw Unimplemented(
        "{} needs what this libtorch ({}) does not have: {}; save it with the PyTorch of this "
        "version, or link the library that registers it",
        path, TORCH_VERSION, first_lines(text));
  }
  throw DataLoss("{} cannot be loaded as TorchScript: {}", path, first_lines(text));
}

}  // namespace

TorchScriptFile::TorchScriptFile(Path path, std::string bytes)
    : path_(std::move(path)), bytes_(std::make_shared<const std::string>(std::move(bytes))) {}

TorchScriptFile TorchScriptFile::read(const Path& path, std::uint64_t limit_bytes) {
  std::string bytes = read_file(path, limit_bytes);
  check_archive(bytes, path.string());
  return {path, std::move(bytes)};
}

torch::jit::Module TorchScriptFile::load(c10::Device device) const {
  try {
    return torch::jit::load(std::make_shared<MemoryReader>(bytes_), device);
  } catch (const c10::Error& error) {
    throw_load_error(path_.string(), error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw_load_error(path_.string(), error.what());
  }
}

}  // namespace muster
