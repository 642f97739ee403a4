#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "muster/saved_model/executor/value.h"
#include "muster/saved_model/graph/data_type.h"

namespace muster::executor {

/// A list of tensors of one type, TensorFlow's way to collect what the steps of a loop make.
/// Immutable; copies share the items. An item that was reserved and never set is empty.
class TensorList {
 public:
  using Items = std::vector<std::optional<Value>>;

  TensorList(graph::DataType type, graph::Shape element_shape, Items items)
      : type_(type),
        element_shape_(std::move(element_shape)),
        items_(std::make_shared<const Items>(std::move(items))) {}

  graph::DataType type() const { return type_; }
  /// Shape that every item fits; sizes of -1 are any.
  const graph::Shape& element_shape() const { return element_shape_; }
  const Items& items() const { return *items_; }
  TensorList with(Items items) const { return {type_, element_shape_, std::move(items)}; }

 private:
  graph::DataType type_;
  graph::Shape element_shape_;
  std::shared_ptr<const Items> items_;
};

}  // namespace muster::executor
