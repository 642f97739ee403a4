#include "muster/data/dataset/stage.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster {

EpochContext EpochContext::input(std::size_t index) const {
  EpochContext context = *this;
  if (context.stats) context.place += fmt::format(".{}", index);
  return context;
}

EpochContext EpochContext::with_epoch(std::uint64_t new_epoch) const {
  EpochContext context = *this;
  context.epoch = new_epoch;
  return context;
}

EpochContext EpochContext::without_stats() const {
  EpochContext context;
  context.epoch = epoch;
  return context;
}

std::string StageBase::place_in_stage(Origin origin) const {
  return fmt::format("{} element {}", kind(), origin.ordinal);
}

void throw_missing_element(const StageBase& stage, Origin origin) {
  throw FailedPrecondition(
      "position names an element that its input no longer has: {}, epoch {}; the data or the "
      "pipeline has changed since it was saved",
      stage.where(origin), origin.epoch);
}

std::vector<Origin> sorted_once(std::vector<Origin> origins, std::string_view kind) {
  std::sort(origins.begin(), origins.end());
  if (std::adjacent_find(origins.begin(), origins.end()) != origins.end()) {
    throw InvalidArgument("position names an element twice at stage {}", kind);
  }
  return origins;
}

std::exception_ptr current_failure(std::string_view doing) {
  try {
    throw;
  } catch (Error& error) {
    error.add_context(doing);
    return std::current_exception();
  } catch (...) {
    const Description description = describe(std::current_exception());
    Error error(description.code, description.message);
    error.add_context(doing);
    return std::make_exception_ptr(std::move(error));
  }
}

std::uint64_t checked_pack(std::uint64_t high, std::uint64_t radix, std::uint64_t low,
                           std::string_view stage) {
  std::uint64_t packed = 0;
  if (low >= radix || __builtin_mul_overflow(high, radix, &packed) ||
      __builtin_add_overflow(packed, low, &packed)) {
    throw OutOfRange("{} cannot number its elements: {} * {} + {} does not fit", stage, high, radix,
                     low);
  }
  return packed;
}

}  // namespace muster
