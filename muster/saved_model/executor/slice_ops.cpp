#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/paced_internal.h"
#include "muster/saved_model/executor/sizes_internal.h"
#include "muster/saved_model/executor/small_tensor_ops_internal.h"

namespace muster::executor {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::size_t kFirstInput[] = {0};

Slots slice(const Inputs& inputs) {
  const auto begin = inputs.ints(1);
  const auto sizes = inputs.ints(2);
  return rearrange(inputs, kFirstInput, [&](const Tensors& in) {
    at::Tensor out = in[0];
    if (static_cast<std::int64_t>(begin.size()) != out.dim() || sizes.size() != begin.size()) {
      throw InvalidArgument("a slice of {} needs as many starts and sizes as axes",
                            describe(in[0]));
    }
    for (std::size_t i = 0; i < begin.size(); ++i) {
      const auto axis = static_cast<std::int64_t>(i);
      if (begin[i] < 0) throw InvalidArgument("the start {} of axis {} is negative", begin[i], i);
      const auto size = sizes[i] < 0 ? out.size(axis) - begin[i] : sizes[i];
      if (size < 0 || begin[i] > out.size(axis) - size) {
        throw InvalidArgument("{} from {} on lie outside of axis {} of {}", sizes[i], begin[i], i,
                              describe(in[0]));
      }
      out = out.narrow(axis, begin[i], size);
    }
    return Tensors{out};
  });
}

// The masks of StridedSlice: bit i belongs to entry i of begin, end and strides.
struct SliceMasks {
  explicit SliceMasks(const graph::NodeDef& node)
      : begin(mask(node, "begin_mask")),
        end(mask(node, "end_mask")),
        ellipsis(mask(node, "ellipsis_mask")),
        new_axis(mask(node, "new_axis_mask")),
        shrink(mask(node, "shrink_axis_mask")) {}

  static std::int64_t mask(const graph::NodeDef& node, const char* name) {
    return graph::attr_or<std::int64_t>(node, name, 0);
  }
  static bool has(std::int64_t mask, std::size_t entry) { return ((mask >> entry) & 1) != 0; }

  std::int64_t begin;
  std::int64_t end;
  std::int64_t ellipsis;
  std::int64_t new_axis;
  std::int64_t shrink;
};

using FewSizes = c10::SmallVector<std::int64_t, 8>;

struct SliceBounds {
  FewSizes begin;
  FewSizes end;
  FewSizes strides;
};

// A part of a tensor while its axes are narrowed one after the other: a view that is made once.
class PartialView {
 public:
  explicit PartialView(const at::Tensor& in)
      : in_(in),
        sizes_(in.sizes().begin(), in.sizes().end()),
        strides_(in.strides().begin(), in.strides().end()) {}

  std::int64_t size(std::int64_t axis) const { return sizes_[static_cast<std::size_t>(axis)]; }

  void add_axis(std::int64_t axis) {
    const std::int64_t stride = axis < static_cast<std::int64_t>(sizes_.size())
                                    ? size(axis) * strides_[static_cast<std::size_t>(axis)]
                                    : 1;
    sizes_.insert(sizes_.begin() + axis, 1);
    strides_.insert(strides_.begin() + axis, stride);
  }

  void take_element(std::int64_t axis, std::int64_t index) {
    const auto length = size(axis);
    if (index < -length || index >= length) {
      throw InvalidArgument("there is no element {} along axis {} of {}", index, axis,
                            describe(in_));
    }
    first_ += (index < 0 ? index + length : index) * strides_[static_cast<std::size_t>(axis)];
    sizes_.erase(sizes_.begin() + axis);
    strides_.erase(strides_.begin() + axis);
  }

  // Every `step`-th of [from, to); `step` is positive.
  void take_range(std::int64_t axis, std::int64_t from, std::int64_t to, std::int64_t step) {
    const auto at = static_cast<std::size_t>(axis);
    sizes_[at] = to <= from ? 0 : (to - from - 1) / step + 1;
    first_ += to <= from ? 0 : from * strides_[at];
    // Between fewer than two elements there is no stride, and a step may be anything.
    if (sizes_[at] > 1) strides_[at] *= step;
  }

  at::Tensor view() const {
    // libtorch's own for tensors whose gradients are asked for.
    if (in_.requires_grad()) return in_.as_strided(sizes_, strides_, in_.storage_offset() + first_);
    return viewed(in_, sizes_, strides_, first_);
  }

  // Elements in another order are copied.
  void take_places(std::int64_t axis, const std::vector<std::int64_t>& places) {
    const at::Tensor copy =
        view().index_select(axis, at::tensor(places, at::kLong).to(in_.device()));
    *this = PartialView(copy);
  }

 private:
  at::Tensor in_;
  FewSizes sizes_;
  FewSizes strides_;
  std::int64_t first_ = 0;
};

void take_range(PartialView& part, std::int64_t axis, const SliceMasks& masks,
                const SliceBounds& bounds, std::size_t entry) {
  const auto size = part.size(axis);
  const auto stride = bounds.strides[entry];
  if (stride == 0) throw InvalidArgument("stride {} is 0", entry);
  const std::int64_t lowest = stride > 0 ? 0 : -1;
  const std::int64_t highest = stride > 0 ? size : size - 1;
  const auto bound = [&](std::int64_t value) {
    return std::clamp(value < 0 ? value + size : value, lowest, highest);
  };
  const auto from = SliceMasks::has(masks.begin, entry) ? (stride > 0 ? lowest : highest)
                                                        : bound(bounds.begin[entry]);
  const auto to = SliceMasks::has(masks.end, entry) ? (stride > 0 ? highest : lowest)
                                                    : bound(bounds.end[entry]);
  if (stride > 0) return part.take_range(axis, from, to, stride);
  std::vector<std::int64_t> places;
  for (auto place = from; place > to; place += stride) places.push_back(place);
  part.take_places(axis, places);
}

at::Tensor strided(const at::Tensor& in, const SliceMasks& masks, const SliceBounds& bounds) {
  const auto entries = bounds.begin.size();
  // Axes that entries beside the ellipsis use up.
  std::int64_t used = 0;
  for (std::size_t i = 0; i < entries; ++i) {
    if (!SliceMasks::has(masks.ellipsis, i) && !SliceMasks::has(masks.new_axis, i)) ++used;
  }
  if (used > in.dim()) {
    throw InvalidArgument("a slice of {} axes of {}", used, describe(in));
  }
  PartialView part(in);
  std::int64_t axis = 0;
  for (std::size_t i = 0; i < entries; ++i) {
    if (SliceMasks::has(masks.ellipsis, i)) {
      axis += in.dim() - used;
    } else if (SliceMasks::has(masks.new_axis, i)) {
      part.add_axis(axis++);
    } else if (SliceMasks::has(masks.shrink, i)) {
      part.take_element(axis, bounds.begin[i]);
    } else {
      take_range(part, axis, masks, bounds, i);
      ++axis;
    }
  }
  return part.view();
}

Kernel strided_slice(const KernelContext& context) {
  return [masks = SliceMasks(context.node)](const Inputs& inputs) {
    const SliceBounds bounds{inputs.few_ints(1), inputs.few_ints(2), inputs.few_ints(3)};
    if (bounds.begin.size() != bounds.end.size() || bounds.begin.size() != bounds.strides.size() ||
        bounds.begin.size() > 32) {
      throw InvalidArgument("{} starts, {} ends and {} strides", bounds.begin.size(),
                            bounds.end.size(), bounds.strides.size());
    }
    if (!inputs.is_strings(0)) return Slots{strided(inputs.tensor(0), masks, bounds)};
    return rearrange(inputs, kFirstInput,
                     [&](const Tensors& in) { return Tensors{strided(in[0], masks, bounds)}; });
  };
}

void check_range(const at::Tensor& indices, std::int64_t size) {
  if (!at::isIntegralType(indices.scalar_type(), /*includeBool=*/false)) {
    throw InvalidArgument("indices must be whole numbers, but are {}", describe(indices));
  }
  if (indices.numel() == 0) return;
  const auto low = indices.min().item<std::int64_t>();
  const auto high = indices.max().item<std::int64_t>();
  if (low < 0 || high >= size) {
    throw InvalidArgument("the index {} is not in [0, {})", low < 0 ? low : high, size);
  }
}

at::Tensor gather_along(const Inputs& inputs, const at::Tensor& in, const at::Tensor& indices,
                        std::int64_t axis) {
  check_range(indices, in.size(axis));
  const at::Tensor flat = indices.to(in.device(), at::kLong).reshape({-1});
  auto sizes = in.sizes().vec();
  sizes.erase(sizes.begin() + axis);
  const auto inner = indices.sizes();
  sizes.insert(sizes.begin() + axis, inner.begin(), inner.end());
  inputs.check_room(sizes, in);
  constexpr std::int64_t kLargeGather = std::int64_t{1} << 23;
  if (*graph::element_count(sizes) <= kLargeGather) {
    return in.index_select(axis, flat).reshape(sizes);
  }
  auto whole = in.sizes().vec();
  whole[static_cast<std::size_t>(axis)] = flat.numel();
  const at::Tensor out = at::empty(whole, in.options());
  const std::int64_t each = std::max<std::int64_t>(out.numel() / flat.numel(), 1);
  const std::int64_t piece = std::max<std::int64_t>(kLargeGather / each, 1);
  for (std::int64_t begin = 0; begin < flat.numel(); begin += piece) {
    inputs.budget().check_time();
    const std::int64_t count = std::min(piece, flat.numel() - begin);
    out.narrow(axis, begin, count).copy_(in.index_select(axis, flat.narrow(0, begin, count)));
  }
  return out.reshape(sizes);
}

// The first axes of both are the same, and each of their elements is gathered from by itself.
at::Tensor gather_in_batches(const Inputs& inputs, const at::Tensor& in, const at::Tensor& indices,
                             std::int64_t axis, std::int64_t batch_dims) {
  if (batch_dims > indices.dim() || batch_dims > axis || axis >= in.dim() ||
      in.sizes().slice(0, static_cast<std::size_t>(batch_dims)) !=
          indices.sizes().slice(0, static_cast<std::size_t>(batch_dims))) {
    throw InvalidArgument("{} and {} do not have {} axes in common before axis {}", describe(in),
                          describe(indices), batch_dims, axis);
  }
  check_range(indices, in.size(axis));
  const auto batch = in.sizes().slice(0, static_cast<std::size_t>(batch_dims));
  // [batches, before, axis, behind]
  const auto before = in.sizes().slice(static_cast<std::size_t>(batch_dims),
                                       static_cast<std::size_t>(axis - batch_dims));
  const auto behind = in.sizes().slice(static_cast<std::size_t>(axis) + 1);
  const auto wanted = indices.sizes().slice(static_cast<std::size_t>(batch_dims));
  std::vector<std::int64_t> sizes = batch.vec();
  for (const auto part : {before, wanted, behind}) {
    sizes.insert(sizes.end(), part.begin(), part.end());
  }
  inputs.check_room(sizes, in);
  const auto batches = product_of(batch);
  const auto rows = product_of(before);
  const auto columns = product_of(behind);
  const auto count = product_of(wanted);
  const at::Tensor from = in.reshape({batches, rows, in.size(axis), columns});
  const at::Tensor places = indices.to(in.device(), at::kLong)
                                .reshape({batches, 1, count, 1})
                                .expand({batches, rows, count, columns});
  return from.gather(2, places).reshape(sizes);
}

Kernel gather(const KernelContext& context) {
  const auto batch_dims = graph::attr_or<std::int64_t>(context.node, "batch_dims", 0);
  if (batch_dims < 0) throw Unimplemented("negative batch_dims");
  return [batch_dims](const Inputs& inputs) {
    const auto axis = inputs.size() > 2 ? inputs.integer(2) : 0;
    const at::Tensor indices = inputs.host_tensor(1);
    return rearrange(inputs, kFirstInput, [&](const Tensors& in) {
      const auto from = positive_axis(axis, in[0].dim());
      return Tensors{batch_dims == 0 ? gather_along(inputs, in[0], indices, from)
                                     : gather_in_batches(inputs, in[0], indices, from, batch_dims)};
    });
  };
}

Slots reverse(const Inputs& inputs) {
  auto axes = inputs.ints(1);
  return rearrange(inputs, kFirstInput, [&](const Tensors& in) {
    for (auto& axis : axes) axis = positive_axis(axis, in[0].dim());
    return Tensors{in[0].flip(axes)};
  });
}

// Rows of `indices` as places in a tensor whose first axes have these sizes.
at::Tensor flat_places(const at::Tensor& indices, at::IntArrayRef sizes) {
  at::Tensor places =
      at::zeros(indices.sizes().slice(0, static_cast<std::size_t>(indices.dim()) - 1), at::kLong);
  const auto depth = indices.size(-1);
  if (depth > static_cast<std::int64_t>(sizes.size())) {
    throw InvalidArgument("indices of {} axes into a tensor of rank {}", depth, sizes.size());
  }
  for (std::int64_t i = 0; i < depth; ++i) {
    const at::Tensor part = indices.select(-1, i).to(at::kLong);
    const auto size = sizes[static_cast<std::size_t>(i)];
    check_range(part, size);
    places = places.mul(size).add(part);
  }
  return places;
}

std::vector<std::int64_t> rows_and_rest(at::IntArrayRef sizes, std::int64_t depth) {
  const auto first = std::min(sizes.size(), static_cast<std::size_t>(depth));
  std::vector<std::int64_t> shape{product_of(sizes.slice(0, first))};
  shape.insert(shape.end(), sizes.begin() + first, sizes.end());
  return shape;
}

// Which rows of a tensor whose first axes have this shape the indices name, one index for each
// axis.
template <typename Index>
FewSizes row_places(const at::Tensor& indices, at::IntArrayRef shape) {
  const auto depth = shape.size();
  const auto* next = indices.data_ptr<Index>();
  FewSizes places(static_cast<std::size_t>(indices.numel()) / depth, 0);
  for (auto& place : places) {
    for (std::size_t axis = 0; axis < depth; ++axis, ++next) {
      if (*next < 0 || *next >= shape[axis]) {
        throw InvalidArgument("the index {} is not in [0, {})", *next, shape[axis]);
      }
      place = place * shape[axis] + *next;
    }
  }
  return places;
}

template <std::size_t kBytes>
void copy_elements(const char* from, const FewSizes& places, char* to) {
  for (const auto place : places) {
    std::memcpy(to, from + place * static_cast<std::int64_t>(kBytes), kBytes);
    to += kBytes;
  }
}

void copy_rows(const at::Tensor& from, const FewSizes& places, std::size_t row_bytes,
               const at::Tensor& to) {
  const auto* source = static_cast<const char*>(from.data_ptr());
  auto* target = static_cast<char*>(to.data_ptr());
  if (row_bytes == 4) return copy_elements<4>(source, places, target);
  if (row_bytes == 8) return copy_elements<8>(source, places, target);
  for (const auto place : places) {
    std::memcpy(target, source + static_cast<std::size_t>(place) * row_bytes, row_bytes);
    target += row_bytes;
  }
}

StringTensor strings_at(const Inputs& inputs, const StringTensor& from, const FewSizes& places,
                        std::vector<std::int64_t> sizes) {
  std::int64_t bytes = 0;
  const auto at = [&](std::int64_t place) -> const std::string& {
    return from.values()[static_cast<std::size_t>(place)];
  };
  for (const auto place : places) {
    bytes += static_cast<std::int64_t>(sizeof(std::string) + at(place).size());
  }
  inputs.check_room(bytes, 1);
  std::vector<std::string> values;
  values.reserve(places.size());
  Pace pace(inputs.budget());
  for (const auto place : places) {
    values.push_back(at(place));
    pace.add(sizeof(std::string) + values.back().size());
  }
  return StringTensor(std::move(values), std::move(sizes));
}

// In the memory of the host: a loop, instead of a dozen operations of libtorch that each do
// little. This is how exports read what is present in a row.
std::optional<Slots> gather_on_host(const Inputs& inputs, const at::Tensor& indices) {
  const Value held = inputs.value(0);
  const auto* tensor = std::get_if<at::Tensor>(&held);
  if (tensor != nullptr && tensor->requires_grad()) return std::nullopt;
  const at::IntArrayRef shape =
      tensor != nullptr ? tensor->sizes() : at::IntArrayRef(std::get<StringTensor>(held).shape());
  const auto type = indices.scalar_type();
  const auto depth = static_cast<std::size_t>(indices.size(-1));
  if (depth == 0 || depth > shape.size() || (tensor == nullptr && depth < shape.size()) ||
      (type != at::kLong && type != at::kInt) || (tensor != nullptr && !inputs.device().is_cpu())) {
    return std::nullopt;
  }
  inputs.check_room(indices.numel(), sizeof(std::int64_t));
  const at::IntArrayRef axes(shape.data(), depth);
  const at::IntArrayRef rest(shape.data() + depth, shape.size() - depth);
  const auto places = type == at::kLong ? row_places<std::int64_t>(indices, axes)
                                        : row_places<std::int32_t>(indices, axes);
  if (tensor == nullptr) {
    auto sizes = indices.sizes().vec();
    sizes.pop_back();
    return Slots{strings_at(inputs, std::get<StringTensor>(held), places, std::move(sizes))};
  }
  FewSizes sizes(indices.sizes().begin(), indices.sizes().end() - 1);
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  inputs.check_room(sizes, *tensor);
  const at::Tensor from = tensor->contiguous();
  at::Tensor out = empty_on_host(sizes, from.scalar_type());
  const auto columns = static_cast<std::size_t>(product_of(rest));
  copy_rows(from, places, columns * from.element_size(), out);
  return Slots{out};
}

Slots gather_nd(const Inputs& inputs) {
  const at::Tensor indices = inputs.host_tensor(1);
  if (indices.dim() < 1) throw InvalidArgument("input 1 must have an axis");
  if (auto rows = gather_on_host(inputs, indices)) return std::move(*rows);
  return rearrange(inputs, kFirstInput, [&](const Tensors& in) {
    const at::Tensor places = flat_places(indices, in[0].sizes());
    return Tensors{gather_along(
        inputs, in[0].reshape(rows_and_rest(in[0].sizes(), indices.size(-1))), places, 0)};
  });
}

// The same for a few updates in the memory of the host, without libtorch's dozen operations.
std::optional<at::Tensor> scatter_few(const at::Tensor& indices, const at::Tensor& updates,
                                      const std::vector<std::int64_t>& sizes) {
  const auto depth = static_cast<std::size_t>(indices.size(-1));
  const auto type = indices.scalar_type();
  const std::int64_t rows = depth == 0 ? 0 : indices.numel() / static_cast<std::int64_t>(depth);
  if (depth == 0 || depth > sizes.size() || rows > kFewNumbers || !is_readable(updates) ||
      (type != at::kLong && type != at::kInt)) {
    return std::nullopt;
  }
  const at::IntArrayRef axes(sizes.data(), depth);
  const at::IntArrayRef rest(sizes.data() + depth, sizes.size() - depth);
  const std::int64_t columns = product_of(rest);
  if (updates.numel() != rows * columns) return std::nullopt;  // Whose error names the shapes.
  const auto targets = type == at::kLong ? row_places<std::int64_t>(indices, axes)
                                         : row_places<std::int32_t>(indices, axes);
  FewSizes sources(targets.size(), 0);
  std::iota(sources.begin(), sources.end(), 0);
  at::Tensor out = empty_on_host(sizes, updates.scalar_type());
  std::memset(out.data_ptr(), 0, out.nbytes());
  const bool done = add_rows(viewed(updates, {rows, columns}), sources,
                             viewed(out, {product_of(axes), columns}), targets);
  return done ? std::optional(out) : std::nullopt;
}

Slots scatter_nd(const Inputs& inputs) {
  const at::Tensor indices = inputs.host_tensor(0);
  const at::Tensor updates = inputs.tensor(1);
  const auto sizes = inputs.ints(2);
  if (indices.dim() < 1) throw InvalidArgument("input 0 must have an axis");
  inputs.check_room(sizes, updates);
  if (auto few = scatter_few(indices, updates, sizes)) return {std::move(*few)};
  const auto shape = rows_and_rest(sizes, indices.size(-1));
  const at::Tensor places = flat_places(indices, sizes).reshape({-1});
  auto rows = shape;
  rows[0] = places.numel();
  at::Tensor out = at::zeros(shape, updates.options());
  // Rows that occur more than once are added, in the order of the updates.
  out.index_add_(0, places.to(updates.device()), updates.reshape(rows));
  return {out.reshape(sizes)};
}

Slots resource_gather(const Inputs& inputs) {
  const Value held = inputs.variable(0)->read();
  const auto* tensor = std::get_if<at::Tensor>(&held);
  if (!tensor || tensor->dim() < 1) throw InvalidArgument("input 0 must be rows of numbers");
  return {gather_along(inputs, *tensor, inputs.host_tensor(1), 0)};
}

}  // namespace

void add_slice_ops(OpTable& table) {
  table.add_plain("Slice", slice);
  table.add("StridedSlice", strided_slice);
  table.add("Gather", gather);
  table.add("GatherV2", gather);
  table.add_plain("ReverseV2", reverse);
  table.add_plain("GatherNd", gather_nd);
  table.add_plain("ScatterNd", scatter_nd);
  table.add_plain("ResourceGather", resource_gather);
}

}  // namespace muster::executor
