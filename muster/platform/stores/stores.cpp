#include <memory>

#include "muster/base/file_system.h"
#include "muster/platform/stores/gcs_api.h"
#include "muster/platform/stores/hdfs_file_system.h"
#include "muster/platform/stores/http_file_system.h"
#include "muster/platform/stores/object_file_system.h"
#include "muster/platform/stores/register_stores.h"
#include "muster/platform/stores/s3_api.h"

namespace muster {

void register_stores() {
  const auto transfers = std::make_shared<stores::Transfers>();
  const auto cache = std::make_shared<stores::DiskCache>();
  register_file_system("s3", stores::make_object_file_system(
                                 "s3",
                                 [transfers] {
                                   return stores::make_s3_api(
                                       stores::S3Settings::from_environment(), transfers);
                                 },
                                 transfers, std::nullopt, cache));
  register_file_system("gs", stores::make_object_file_system(
                                 "gs",
                                 [transfers] {
                                   return stores::make_gcs_api(
                                       stores::GcsSettings::from_environment(), transfers);
                                 },
                                 transfers, std::nullopt, cache));
  const auto hdfs = stores::make_hdfs_file_system(stores::HdfsSettings::from_environment, transfers,
                                                  std::nullopt, cache);
  for (const char* scheme : {"hdfs", "webhdfs", "swebhdfs"}) register_file_system(scheme, hdfs);
  const auto http = stores::make_http_file_system(transfers);
  register_file_system("http", http);
  register_file_system("https", http);
}

}  // namespace muster
