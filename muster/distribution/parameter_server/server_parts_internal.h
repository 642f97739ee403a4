#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/checkpoint/tensor.h"
#include "muster/distribution/parameter_server/ps_layout_internal.h"
#include "muster/nn/optim/named_tensor.h"
#include "muster/nn/optim/updater.h"
#include "muster/nn/optim/variables.h"
#include "muster/train/engine/tensor_codec.h"

namespace muster::internal {

/// The parts of a checkpoint that servers write themselves: the rows of tables that each holds, and
/// the other variables that one of them holds whole; slots with them. The chief writes the rest. A
/// function of the variables and the layout, so every task knows it. The layout and the variables
/// outlive it.
class ServerParts {
 public:
  ServerParts(const PsLayout& layout, const Variables& variables, const Updater& updater);

  /// Names of the variables and slots in all parts.
  const std::set<std::string, std::less<>>& names() const { return names_; }
  bool has(std::string_view name) const { return names_.contains(name); }
  /// Size of all parts together.
  std::uint64_t bytes() const { return bytes_; }

  /// The server's part, as it stands in a checkpoint; the views are of live values.
  EncodedTensors tensors(std::size_t server, const Updater& updater,
                         const CheckpointLayouts& layouts) const;

 private:
  /// The variable's value and its slots.
  std::vector<NamedTensor> with_slots(const Variable& variable, const Updater& updater) const;

  const PsLayout& layout_;
  const Variables& variables_;
  std::set<std::string, std::less<>> names_;
  std::uint64_t bytes_ = 0;
};

}  // namespace muster::internal
