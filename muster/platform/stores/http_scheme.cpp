#include "muster/platform/stores/http_file_system.h"
#include "muster/platform/stores/store_scheme.h"

namespace muster::stores {

StoreScheme http_scheme() {
  return {.names = {"http", "https"},
          .make = [](const SharedTransfers& shared) -> std::shared_ptr<FileSystem> {
            return make_http_file_system(shared.transfers);
          }};
}

}  // namespace muster::stores
