#pragma once

#include <memory>

#include "muster/base/file_system.h"
#include "muster/platform/stores/http_client.h"
#include "muster/platform/stores/transfers.h"

namespace muster::stores {

/// Files of web servers, for reading: http:// and https://. Ranges are fetched ahead where the
/// server has them, and redirects are followed. There are no folders, and nothing can be written.
std::shared_ptr<FileSystem> make_http_file_system(std::shared_ptr<Transfers> transfers,
                                                  RetryPolicy retry = {});

}  // namespace muster::stores
