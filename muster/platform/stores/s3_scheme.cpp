#include "muster/platform/stores/object_file_system.h"
#include "muster/platform/stores/s3_api.h"
#include "muster/platform/stores/store_scheme.h"

namespace muster::stores {

StoreScheme s3_scheme() {
  return {.names = {"s3"},
          .make = [](const SharedTransfers& shared) -> std::shared_ptr<FileSystem> {
            return make_object_file_system(
                "s3",
                [transfers = shared.transfers] {
                  return make_s3_api(S3Settings::from_environment(), transfers);
                },
                shared.transfers, std::nullopt, shared.cache);
          }};
}

}  // namespace muster::stores
