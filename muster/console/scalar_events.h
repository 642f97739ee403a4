#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace muster::console {

/// One scalar of an event; the view lives as long as the record.
struct ScalarEvent {
  std::string_view tag{};
  std::int64_t step = 0;
  double time = 0;
  double value = 0;
};

/// Hands on the scalars of one record of an event file, without building messages: event files of
/// millions of points are read whole. Returns whether the record has anything else: a graph, or
/// values that are no scalars. Throws DataLoss for bytes that are no Event.
bool scan_scalars(std::string_view record, const std::function<void(const ScalarEvent&)>& take);

}  // namespace muster::console
