#pragma once

#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "muster/base/error.h"

namespace muster::executor {

inline std::string where(std::string_view name, std::string_view op) {
  return fmt::format("node {} ({})", name, op);
}

/// Does something for a node; errors name it, and those of libtorch become ours.
template <typename Act>
auto in_node(std::string_view name, std::string_view op, const Act& act) {
  try {
    return act();
  } catch (Error& error) {
    error.add_context(where(name, op));
    throw;
  } catch (const c10::Error& error) {
    throw InvalidArgument("{}: {}", where(name, op), error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    throw ResourceExhausted("{}: there is not enough memory", where(name, op));
  } catch (const std::exception& error) {
    // libtorch throws this for some shapes.
    throw InvalidArgument("{}: {}", where(name, op), error.what());
  }
}

}  // namespace muster::executor
