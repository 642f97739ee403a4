#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/distribution/ps_messages_internal.h"

// What tasks and servers tell each other where every push is applied as it comes.
namespace muster::internal {

/// The terms of a run with the kind of updates in them, so that a task that makes others is refused
/// when it joins.
RunTerms asynchronous_terms(RunTerms terms, std::int64_t max_staleness);

/// How many updates old the values were that gradients were computed with.
struct Staleness {
  std::int64_t updates = 0;
  std::int64_t sum = 0;
  std::int64_t max = 0;

  void add(std::int64_t age) {
    ++updates;
    sum += age;
    max = std::max(max, age);
  }
  double mean() const {
    return updates == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(updates);
  }
};

/// What a task that trains sends to a server: the mean over its replicas that had a batch.
struct AsyncPush {
  ReplicaRange replicas{};
  /// 0: none of its replicas has a batch any more.
  std::int64_t present = 0;
  std::int64_t examples = 0;
  double loss = 0;
  /// Of `replicas`, for the first server; else empty.
  std::vector<std::optional<std::string>> positions{};
  /// Undefined where there is nothing to apply. To send: all dense gradients, of which `ranges` are
  /// sent; received: those ranges one behind the other.
  at::Tensor flat{};
  std::vector<FlatRange> ranges{};
  std::vector<RowGradient> rows{};
  /// Those of replica 0 for the first server, if the task runs it; else empty.
  std::vector<at::Tensor> buffers{};
};
/// The push must live until it is sent.
EncodedMessage encode_push(const AsyncPush& push);
/// Throws DataLoss for a message that does not fit a run of so many replicas, a server with
/// `flat_size` dense elements, or a model with these buffers.
AsyncPush decode_push(std::string_view header, net::Buffer body, std::int64_t replicas,
                      std::int64_t flat_size, std::size_t tables,
                      const std::vector<at::Tensor>& buffers);

/// What a server answers.
struct AsyncReply {
  /// Of all pushes that the server has applied.
  Staleness staleness{};
  /// Pushes that were too old to be applied.
  std::int64_t too_old = 0;
  /// The push that this answers is one of those: no other server is to apply it either.
  bool left_out = false;
  ValuesMessage values{};
};
EncodedMessage encode_reply(const AsyncReply& reply);
AsyncReply decode_reply(std::string_view header, net::Buffer body, std::int64_t flat_size,
                        std::size_t tables, const std::vector<at::Tensor>& buffers);

}  // namespace muster::internal
