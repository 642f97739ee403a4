#include "muster/base/local_time.h"

#include <time.h>

namespace muster {

std::string local_time(std::chrono::system_clock::time_point time, const char* format) {
  const time_t seconds = std::chrono::system_clock::to_time_t(time);
  tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[64];
  return {text, ::strftime(text, sizeof(text), format, &parts)};
}

}  // namespace muster
