#pragma once

#include <memory>

#include "muster/platform/stores/object_api.h"
#include "muster/platform/stores/s3_credentials.h"
#include "muster/platform/stores/transfers.h"

namespace muster::stores {

/// Amazon S3 and stores that speak as it does. Everything is asked for at the first call, not here.
std::shared_ptr<ObjectApi> make_s3_api(S3Settings settings, std::shared_ptr<Transfers> transfers);

}  // namespace muster::stores
