#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "muster/saved_model/graph/graph_def.h"

namespace muster::executor {

/// Where the channels of images are. libtorch computes channels first, of which channels last is a
/// view; what layers of convolutions compute is in memory channels last.
enum class Layout { kChannelsLast, kChannelsFirst };

/// The attribute data_format. Throws Unimplemented.
Layout layout_of(const graph::NodeDef& node);

/// The entries of a list of four that belong to height and width. Throws Unimplemented unless the
/// others are 1, InvalidArgument.
std::vector<std::int64_t> height_width(const graph::NodeDef& node, const char* name, Layout layout);

/// How much is added above, below, left and right of images.
class Padding {
 public:
  /// Throws InvalidArgument.
  Padding(const graph::NodeDef& node, Layout layout);

  const std::string& kind() const { return kind_; }
  /// `in` are the sizes of images, channels first.
  std::vector<std::int64_t> amounts(at::IntArrayRef in, const std::vector<std::int64_t>& window,
                                    const std::vector<std::int64_t>& strides,
                                    const std::vector<std::int64_t>& dilations) const;

 private:
  std::string kind_;
  std::vector<std::int64_t> explicit_;
};

/// Attributes that convolutions and pools have in common.
struct Window {
  explicit Window(const graph::NodeDef& node)
      : layout(layout_of(node)),
        strides(height_width(node, "strides", layout)),
        dilations(height_width(node, "dilations", layout)),
        padding(node, layout) {}

  Layout layout;
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  Padding padding;
};

}  // namespace muster::executor
