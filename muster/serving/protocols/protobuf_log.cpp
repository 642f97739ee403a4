#include <google/protobuf/stubs/common.h>
#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#endif

#include <mutex>

#include "muster/base/log.h"
#include "muster/serving/protocols/protobuf_log_internal.h"

namespace muster::serving {

void quiet_protobuf() {
#if GOOGLE_PROTOBUF_VERSION < 4022000
  static std::once_flag once;
  std::call_once(once, [] {
    google::protobuf::SetLogHandler(
        [](google::protobuf::LogLevel level, const char*, int, const std::string& message) {
          // A fatal message ends the process after this.
          if (level == google::protobuf::LOGLEVEL_FATAL) {
            log::error("protobuf: {}", message);
          } else {
            log::debug("protobuf: {}", message);
          }
        });
  });
#endif
}

}  // namespace muster::serving
