#include "muster/platform/stores/gcs_api.h"
#include "muster/platform/stores/object_file_system.h"
#include "muster/platform/stores/store_scheme.h"

namespace muster::stores {

StoreScheme gcs_scheme() {
  return {.names = {"gs"},
          .make = [](const SharedTransfers& shared) -> std::shared_ptr<FileSystem> {
            return make_object_file_system(
                "gs",
                [transfers = shared.transfers] {
                  return make_gcs_api(GcsSettings::from_environment(), transfers);
                },
                shared.transfers, std::nullopt, shared.cache);
          }};
}

}  // namespace muster::stores
