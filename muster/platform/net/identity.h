#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace muster::net {

class TlsContext;

/// Who this process is, and what proves that it belongs to the run.
struct Identity {
  /// The role and index: "worker:1".
  std::string task{};
  /// Tasks of other runs are refused, by name of both runs.
  std::string run_id{};
  /// Secret known to the tasks of the run alone; the empty one is a secret like any other, known
  /// to all. It is never logged and never sent: both sides send a keyed hash (HMAC-SHA256) of what
  /// both have just drawn. It keeps strangers out; what is sent is encrypted with `tls` alone.
  std::string secret{};
  /// Connections are encrypted with it; null: they are not. The same kind for all tasks of a run.
  std::shared_ptr<const TlsContext> tls{};
};

/// Whether a task, such as "worker:1", belongs to the cluster of the one who asks. Any thread.
using Admission = std::function<bool(std::string_view task)>;

/// Throws InvalidArgument for a task or run id that is empty, long or not printable.
void check(const Identity& identity);

}  // namespace muster::net
