#pragma once

#include "muster/cli/predict_flags.h"

namespace muster::cli {

/// `muster predict --model M`: asks a server instead of a folder, as gcloud's predict asks
/// Cloud ML Engine. Throws Unavailable without an answer, what the server says when it refuses.
void predict_remotely(const PredictFlags& flags);

}  // namespace muster::cli
