#include "muster/platform/cluster/trial_pause.h"

#include <cstdlib>
#include <string_view>

namespace muster {

bool trial_pauses() {
  const char* const value = std::getenv(kTrialPausesVariable);
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace muster
