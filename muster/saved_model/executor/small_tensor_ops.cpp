#include "muster/saved_model/executor/small_tensor_ops_internal.h"

#include <ATen/Dispatch.h>
#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/saved_model/executor/recycled_tensors_internal.h"
#include "muster/saved_model/executor/sizes_internal.h"
#include "muster/saved_model/executor/whole_arithmetic_internal.h"

namespace muster::executor {
namespace {

/// Calls act(T{}) for the types that graphs of requests have. False for others.
template <typename Act>
bool for_type(at::ScalarType type, const Act& act) {
  switch (type) {
    case at::kFloat:
      act(float{});
      return true;
    case at::kDouble:
      act(double{});
      return true;
    case at::kInt:
      act(std::int32_t{});
      return true;
    case at::kLong:
      act(std::int64_t{});
      return true;
    case at::kBool:
      act(bool{});
      return true;
    default:
      return false;
  }
}

bool is_comparison(FewOp op) { return op != FewOp::kAdd && op != FewOp::kSub && op != FewOp::kMul; }

template <typename T>
T arithmetic(FewOp op, T left, T right) {
  // Whole numbers wrap around, as libtorch's do.
  using Wide = std::conditional_t<std::is_integral_v<T>,
                                  std::make_unsigned_t<std::conditional_t<
                                      std::is_same_v<T, bool> || !std::is_integral_v<T>, int, T>>,
                                  T>;
  const auto a = static_cast<Wide>(left);
  const auto b = static_cast<Wide>(right);
  return static_cast<T>(op == FewOp::kAdd ? a + b : op == FewOp::kSub ? a - b : a * b);
}

template <typename T>
bool compared(FewOp op, T left, T right) {
  switch (op) {
    case FewOp::kEqual:
      return left == right;
    case FewOp::kNotEqual:
      return left != right;
    case FewOp::kLess:
      return left < right;
    case FewOp::kLessEqual:
      return left <= right;
    case FewOp::kGreater:
      return left > right;
    default:
      return left >= right;
  }
}

at::Tensor alias_of(const at::Tensor& tensor) {
  auto alias = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype());
  alias.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
  return alias;
}

}  // namespace

bool is_readable(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.is_contiguous() && !tensor.requires_grad();
}

at::Tensor empty_on_host(at::IntArrayRef sizes, at::ScalarType type) {
  at::Tensor used = recycled(sizes, type);
  return used.defined() ? used : at::Tensor(at::detail::empty_cpu(sizes, type));
}

at::Tensor whole_numbers(std::span<const std::int64_t> values, at::ScalarType type) {
  at::Tensor out = empty_on_host({static_cast<std::int64_t>(values.size())}, type);
  if (type == at::kLong) {
    std::copy(values.begin(), values.end(), out.data_ptr<std::int64_t>());
  } else {
    std::transform(values.begin(), values.end(), out.data_ptr<std::int32_t>(),
                   [](std::int64_t value) { return static_cast<std::int32_t>(value); });
  }
  return out;
}

at::Tensor viewed(const at::Tensor& tensor, at::IntArrayRef sizes) {
  at::Tensor view = alias_of(tensor);
  view.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return view;
}

at::Tensor viewed(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides,
                  std::int64_t first) {
  at::Tensor view = alias_of(tensor);
  auto* impl = view.unsafeGetTensorImpl();
  impl->set_storage_offset(tensor.storage_offset() + first);
  impl->set_sizes_and_strides(sizes, strides);
  return view;
}

std::optional<at::Tensor> cast_few(const at::Tensor& in, at::ScalarType type) {
  if (!is_few(in)) return std::nullopt;
  std::optional<at::Tensor> out;
  for_type(in.scalar_type(), [&](auto from) {
    for_type(type, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      out = empty_on_host(in.sizes(), type);
      const From* const source = in.data_ptr<From>();
      std::transform(source, source + in.numel(), out->data_ptr<To>(), converted<To, From>);
    });
  });
  return out;
}

std::optional<at::Tensor> combine_few(FewOp op, const at::Tensor& left, const at::Tensor& right) {
  if (!is_few(left) || !is_few(right) || left.scalar_type() != right.scalar_type()) {
    return std::nullopt;
  }
  const bool one_left = left.numel() == 1 && left.dim() <= right.dim();
  const bool one_right = right.numel() == 1 && right.dim() <= left.dim();
  if (!one_left && !one_right && left.sizes() != right.sizes()) return std::nullopt;
  if (left.scalar_type() == at::kBool && !is_comparison(op)) return std::nullopt;
  const at::IntArrayRef sizes = one_left && !one_right ? right.sizes() : left.sizes();
  std::optional<at::Tensor> out;
  for_type(left.scalar_type(), [&](auto kind) {
    using T = decltype(kind);
    const bool compares = is_comparison(op);
    out = empty_on_host(sizes, compares ? at::kBool : left.scalar_type());
    const T* const a = left.data_ptr<T>();
    const T* const b = right.data_ptr<T>();
    const auto each = [&](auto* to, const auto& compute) {
      for (std::int64_t i = 0; i < out->numel(); ++i) {
        to[i] = compute(op, a[left.numel() == 1 ? 0 : i], b[right.numel() == 1 ? 0 : i]);
      }
    };
    if (compares) {
      each(out->data_ptr<bool>(), compared<T>);
    } else {
      each(out->data_ptr<T>(), arithmetic<T>);
    }
  });
  return out;
}

std::optional<at::Tensor> fill_few(const at::Tensor& like, int value) {
  if (!is_few(like)) return std::nullopt;
  std::optional<at::Tensor> out;
  for_type(like.scalar_type(), [&](auto kind) {
    using T = decltype(kind);
    out = empty_on_host(like.sizes(), like.scalar_type());
    std::fill_n(out->data_ptr<T>(), out->numel(), static_cast<T>(value));
  });
  return out;
}

std::optional<at::Tensor> join_few(std::span<const at::Tensor> parts, std::int64_t axis,
                                   bool is_new) {
  auto sizes = parts[0].sizes().vec();
  if (is_new) sizes.insert(sizes.begin() + axis, 1);
  const auto at = static_cast<std::size_t>(axis);
  std::int64_t count = 0, length = 0;
  for (const at::Tensor& part : parts) {
    count += part.numel();
    if (part.dim() != parts[0].dim() || part.scalar_type() != parts[0].scalar_type() ||
        count > kFewNumbers || !is_readable(part)) {
      return std::nullopt;
    }
    for (std::int64_t i = 0; i < part.dim(); ++i) {
      if ((is_new || i != axis) && part.size(i) != parts[0].size(i)) return std::nullopt;
    }
    length += is_new ? 1 : part.size(axis);
  }
  sizes[at] = length;
  at::Tensor out = empty_on_host(sizes, parts[0].scalar_type());
  const std::size_t inner =
      static_cast<std::size_t>(product_of(at::IntArrayRef(sizes).slice(at + 1))) *
      out.element_size();
  const std::int64_t outer = product_of(at::IntArrayRef(sizes).slice(0, at));
  auto* to = static_cast<char*>(out.data_ptr());
  for (std::int64_t i = 0; i < outer; ++i) {
    for (const at::Tensor& part : parts) {
      const std::size_t bytes = (is_new ? 1 : static_cast<std::size_t>(part.size(axis))) * inner;
      if (bytes == 0) continue;
      std::memcpy(to,
                  static_cast<const char*>(part.data_ptr()) + static_cast<std::size_t>(i) * bytes,
                  bytes);
      to += bytes;
    }
  }
  return out;
}

bool add_rows(const at::Tensor& from, std::span<const std::int64_t> sources, const at::Tensor& to,
              std::span<const std::int64_t> targets) {
  if (from.scalar_type() == at::kBool) return false;
  const std::int64_t columns = product_of(from.sizes().slice(1));
  return for_type(from.scalar_type(), [&](auto kind) {
    using T = decltype(kind);
    const T* const source = from.data_ptr<T>();
    T* const target = to.data_ptr<T>();
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const T* const row = source + sources[i] * columns;
      T* const sum = target + targets[i] * columns;
      for (std::int64_t j = 0; j < columns; ++j) {
        sum[j] = arithmetic<T>(FewOp::kAdd, sum[j], row[j]);
      }
    }
  });
}

}  // namespace muster::executor
