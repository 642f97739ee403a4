#include "muster/saved_model/executor/recycled_tensors_internal.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/accumulate.h>

#include <array>
#include <cstdlib>
#include <new>
#include <utility>

namespace muster::executor {
namespace {

/// Tensors of one size and type.
struct Shelf {
  static constexpr std::size_t kMost = 32;
  std::array<at::Tensor, kMost> tensors{};
  std::size_t count = 0;
};

/// Room for elements, and how many such tensors are kept.
struct SizeClass {
  std::size_t bytes;
  std::size_t most;
};
constexpr std::array<SizeClass, 5> kRecycledClasses{
    {{64, 32}, {256, 32}, {1024, 16}, {4096, 8}, {16384, 4}}};
constexpr std::array kRecycledTypes{at::kFloat, at::kLong, at::kInt, at::kBool};

/// In front of the elements.
struct alignas(64) Header {
  std::size_t size_class;
};

struct Shelves {
  std::array<std::array<Shelf, kRecycledClasses.size()>, kRecycledTypes.size()> by_type{};
  // A thread that is ending has destroyed them.
  bool is_open = true;
  ~Shelves() { is_open = false; }
};
thread_local Shelves shelves;

std::size_t type_index(at::ScalarType type) {
  std::size_t i = 0;
  while (i < kRecycledTypes.size() && kRecycledTypes[i] != type) ++i;
  return i;
}

void free_header(void* header) { std::free(header); }

at::Tensor fresh(std::size_t size_class, std::size_t bytes, at::ScalarType type) {
  auto* const header = static_cast<Header*>(
      std::aligned_alloc(alignof(Header), sizeof(Header) + kRecycledClasses[size_class].bytes));
  if (header == nullptr) throw std::bad_alloc();
  header->size_class = size_class;
  c10::DataPtr data(header + 1, header, &free_header, c10::Device(c10::kCPU));
  return at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), static_cast<std::int64_t>(bytes), std::move(data),
          /*allocator=*/nullptr, /*resizable=*/false)),
      c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
}

}  // namespace

at::Tensor recycled(at::IntArrayRef sizes, at::ScalarType type) {
  const std::size_t of_type = type_index(type);
  if (of_type == kRecycledTypes.size()) return {};
  std::size_t bytes = c10::elementSize(type);
  for (const std::int64_t size : sizes) {
    // Sizes may multiply to anything; those that are negative are refused by libtorch.
    if (size < 0 || size > static_cast<std::int64_t>(kRecycledClasses.back().bytes)) return {};
    bytes *= static_cast<std::size_t>(size);
    if (bytes > kRecycledClasses.back().bytes) return {};
  }
  std::size_t size_class = 0;
  while (bytes > kRecycledClasses[size_class].bytes) ++size_class;
  Shelf& shelf = shelves.by_type[of_type][size_class];
  at::Tensor tensor;
  if (shelf.count > 0) {
    tensor = std::move(shelf.tensors[--shelf.count]);
    tensor.storage().unsafeGetStorageImpl()->set_nbytes(bytes);
  } else {
    tensor = fresh(size_class, bytes, type);
  }
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

void recycle(at::Tensor&& tensor) {
  if (!tensor.defined() || tensor.use_count() != 1 || !tensor.is_cpu() || !shelves.is_open) return;
  auto* const impl = tensor.unsafeGetTensorImpl();
  if (!impl->has_storage() || impl->storage_offset() != 0 || tensor.weak_use_count() != 1) return;
  const c10::Storage& storage = impl->storage();
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() != &free_header || storage.use_count() != 1) return;
  const std::size_t size_class = static_cast<const Header*>(data.get_context())->size_class;
  const std::size_t of_type = type_index(tensor.scalar_type());
  if (of_type == kRecycledTypes.size()) return;
  Shelf& shelf = shelves.by_type[of_type][size_class];
  if (shelf.count < kRecycledClasses[size_class].most)
    shelf.tensors[shelf.count++] = std::move(tensor);
}

std::size_t most_recycled_bytes() {
  std::size_t bytes = 0;
  for (const auto& [room, most] : kRecycledClasses) bytes += kRecycledTypes.size() * most * room;
  return bytes;
}

}  // namespace muster::executor
