#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/ps_layout_internal.h"
#include "muster/engine/strategy.h"
#include "muster/net/buffer.h"
#include "muster/optim/updater.h"

// What servers tell those that train.
namespace muster::internal {

/// The terms of a run whose steps are made without the last so many replicas say so: a task that
/// waits for all of them is refused when it joins.
RunTerms terms_with_backups(RunTerms terms, std::int64_t backup_replicas);

/// The values of a server's part after a step, or all of them for a task that lacks them.
struct ValuesMessage {
  std::int64_t step = 0;
  StepResult outcome{};
  /// Of all replicas.
  InputPositions positions{};
  /// What a RunSnapshot has, for a task that joins; else empty.
  std::int64_t left_out = 0;
  std::int64_t inputs_from = 0;
  std::string state_json{};
  /// Undefined where nothing was updated. To send: all values, of which `ranges` are sent;
  /// received: those ranges one behind the other.
  at::Tensor flat{};
  std::vector<FlatRange> ranges{};
  /// By table: the rows that are new, and their values.
  std::vector<RowGradient> rows{};
  /// Replica 0's after a step; for a task that joins, everything that is not trained.
  std::vector<at::Tensor> buffers{};
};

/// The message must live until it is sent.
EncodedMessage encode_values(const ValuesMessage& message);
/// Throws DataLoss for a message that does not fit.
ValuesMessage decode_values(std::string_view header, net::Buffer body, std::int64_t flat_size,
                            std::size_t tables, const std::vector<at::Tensor>& buffers);

/// Puts all values of a server's part into a message, for a task that lacks them.
void put_all_values(ValuesMessage& message, std::size_t server, const PsLayout& layout,
                    const Variables& variables);
/// Writes what a server sent to where it belongs: to the variables, and to `buffers`.
void write_values(const ValuesMessage& message, std::size_t server, const PsLayout& layout,
                  const Variables& variables, const std::vector<at::Tensor>& buffers);

/// What is not trained, in the order of the variables: buffers, and what is frozen.
std::vector<at::Tensor> untrained(const Variables& variables);

/// The pieces of all slots that belong to a server's parts, in a fixed order; the scalars of the
/// optimizers are the first server's.
std::vector<at::Tensor> slot_pieces(const PsLayout& layout, std::size_t server,
                                    const Variables& variables, const Updater& updater);

}  // namespace muster::internal
