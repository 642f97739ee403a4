#pragma once

/// Parts of libtorch's dispatcher that differ between the versions that muster builds with, and
/// those that the recorder takes for itself.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

#include "muster/nn/kernels/torch_compat.h"

namespace muster::compiler {

/// The key below autograd and above devices that nothing in libtorch's C++ has kernels for. A
/// version that takes it for itself refuses the registration of the recorder's fallback.
inline constexpr c10::DispatchKey kRecorderKey = c10::DispatchKey::Fake;

#if MUSTER_TORCH_AT_LEAST(2, 2)
template <typename T>
using Optional = std::optional<T>;
#else
template <typename T>
using Optional = c10::optional<T>;
#endif

/// Operations as they were recorded: neither autograd nor autocast see them again.
class BelowAutograd {
 private:
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                            c10::autocast_dispatch_keyset};
};

/// A tensor of memory that is there already.
inline at::Tensor tensor_of(const c10::Storage& storage, c10::DispatchKeySet keys,
                            at::ScalarType type, at::IntArrayRef sizes, at::IntArrayRef strides,
                            std::int64_t offset) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), keys,
                                                               c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  return tensor;
}

/// The keys of plain tensors of a device.
inline c10::DispatchKeySet keys_of(c10::Device device) {
  return c10::DispatchKeySet(c10::computeDispatchKey({}, {}, device));
}

}  // namespace muster::compiler
