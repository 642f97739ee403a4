#pragma once

#include <memory>
#include <string>

#include "muster/serving/codec/model_folder.h"

namespace muster::cli {

/// The models of a running `muster serve --models-dir` at "HOST:PORT". Its functions throw what the
/// server says.
std::unique_ptr<serving::ModelCatalog> remote_models(std::string server);

}  // namespace muster::cli
