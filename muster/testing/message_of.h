#pragma once

#include <string>

#include "muster/base/error.h"

namespace muster::testing {

/// Message of the Error that `act` throws, or "nothing was thrown".
template <typename Act>
std::string message_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace muster::testing
