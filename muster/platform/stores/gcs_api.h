#pragma once

#include <memory>

#include "muster/platform/stores/gcs_credentials.h"
#include "muster/platform/stores/object_api.h"
#include "muster/platform/stores/transfers.h"

namespace muster::stores {

/// Google Cloud Storage by its JSON API. Versions are generations.
std::shared_ptr<ObjectApi> make_gcs_api(GcsSettings settings, std::shared_ptr<Transfers> transfers);

}  // namespace muster::stores
