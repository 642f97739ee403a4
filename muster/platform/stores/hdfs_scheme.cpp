#include "muster/platform/stores/hdfs_file_system.h"
#include "muster/platform/stores/store_scheme.h"

namespace muster::stores {

StoreScheme hdfs_scheme() {
  return {.names = {"hdfs", "webhdfs", "swebhdfs"},
          .make = [](const SharedTransfers& shared) -> std::shared_ptr<FileSystem> {
            return make_hdfs_file_system(HdfsSettings::from_environment, shared.transfers,
                                         std::nullopt, shared.cache);
          }};
}

}  // namespace muster::stores
