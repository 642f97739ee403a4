#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/distribution/parameter_server/ps_layout_internal.h"
#include "muster/distribution/parameter_server/server_parts_internal.h"
#include "muster/distribution/wire/messages_internal.h"
#include "muster/nn/optim/updater.h"

// Values that servers hold, as messages have them and as tasks that train write them.
namespace muster::internal {

/// The terms of a run whose steps are made without the last so many replicas say so: a task that
/// waits for all of them is refused when it joins.
RunContract terms_with_backups(RunContract terms, std::int64_t backup_replicas);
/// The same for a run whose pushes are applied as they come.
RunContract asynchronous_terms(RunContract terms, std::int64_t max_staleness);

/// Puts all values of a server's part into a message, for a task that lacks them.
void put_all_values(Values& message, std::size_t server, const PsLayout& layout,
                    const Variables& variables);
/// Writes what a server sent to where it belongs: to the variables, and to `buffers`.
void write_values(const Values& message, std::size_t server, const PsLayout& layout,
                  const Variables& variables, const std::vector<at::Tensor>& buffers);

/// Tensors that are not trained, in the order of the variables: buffers and frozen variables.
std::vector<at::Tensor> untrained(const Variables& variables);

/// The pieces of all slots that belong to a server's parts, in a fixed order; the scalars of the
/// optimizers are the first server's. `except`: except for those that are in it.
std::vector<at::Tensor> slot_pieces(const PsLayout& layout, std::size_t server,
                                    const Variables& variables, const Updater& updater,
                                    const ServerParts* except = nullptr);

}  // namespace muster::internal
