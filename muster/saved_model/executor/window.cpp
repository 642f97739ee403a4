#include <algorithm>
#include <array>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/window_internal.h"

namespace muster::executor {

Layout layout_of(const graph::NodeDef& node) {
  const auto format = graph::attr_or<std::string>(node, "data_format", "NHWC");
  if (format == "NHWC") return Layout::kChannelsLast;
  if (format == "NCHW") return Layout::kChannelsFirst;
  throw Unimplemented("the data_format {}", format);
}

std::vector<std::int64_t> height_width(const graph::NodeDef& node, const char* name,
                                       Layout layout) {
  auto list = graph::attr_or<graph::AttrList>(node, name, {}).ints;
  if (list.empty()) list = {1, 1, 1, 1};
  if (list.size() != 4) throw InvalidArgument("{} must have four entries", name);
  if (layout == Layout::kChannelsLast) list = {list[0], list[3], list[1], list[2]};
  if (list[0] != 1 || list[1] != 1) {
    throw Unimplemented("{} other than 1 for batch and channels", name);
  }
  if (list[2] < 1 || list[3] < 1 || list[2] > kMaxElements || list[3] > kMaxElements) {
    throw InvalidArgument("{} must be positive and at most {}", name, kMaxElements);
  }
  return {list[2], list[3]};
}

Padding::Padding(const graph::NodeDef& node, Layout layout)
    : kind_(graph::attr<std::string>(node, "padding")) {
  if (kind_ == "EXPLICIT") {
    const auto list = graph::attr<graph::AttrList>(node, "explicit_paddings").ints;
    if (list.size() != 8) throw InvalidArgument("explicit_paddings must have eight entries");
    const std::size_t height = layout == Layout::kChannelsLast ? 2 : 4;
    explicit_.assign(list.begin() + static_cast<std::ptrdiff_t>(height),
                     list.begin() + static_cast<std::ptrdiff_t>(height + 4));
    check_shape(std::vector{explicit_[0], explicit_[1]});
    check_shape(std::vector{explicit_[2], explicit_[3]});
  } else if (kind_ != "SAME" && kind_ != "VALID") {
    throw InvalidArgument("the padding {} is unknown", kind_);
  }
}

std::vector<std::int64_t> Padding::amounts(at::IntArrayRef in,
                                           const std::vector<std::int64_t>& window,
                                           const std::vector<std::int64_t>& strides,
                                           const std::vector<std::int64_t>& dilations) const {
  if (kind_ == "EXPLICIT") return explicit_;
  std::vector<std::int64_t> amounts(4, 0);
  if (kind_ == "VALID") return amounts;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto size = in[i + 2];
    check_shape(std::array{window[i], dilations[i]});
    const auto reach = (window[i] - 1) * dilations[i] + 1;
    const auto places = (size + strides[i] - 1) / strides[i];
    const auto total = std::max<std::int64_t>((places - 1) * strides[i] + reach - size, 0);
    // An odd one goes below and to the right.
    amounts[2 * i] = total / 2;
    amounts[2 * i + 1] = total - total / 2;
  }
  return amounts;
}

}  // namespace muster::executor
