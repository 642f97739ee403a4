#pragma once

#include "muster/base/file_system.h"
#include "muster/nn/weights/load_weights.h"
#include "muster/nn/zoo/network.h"

namespace muster::zoo {

/// load_weights() for files as they are published, whose names differ from those that the model's
/// class has today: LayerNorm.gamma of old BERT files, mlp.linear_1 of torchvision's ViTs, the
/// missing "transformer." and the causal masks in GPT-2's, "module." of DataParallel. What the
/// model has no place for, such as BERT's layers for pretraining, is left out; variables that the
/// file lacks are an error unless options.keep names them. options.map comes first.
WeightReport load_published_weights(Network& model, const Path& path,
                                    LoadWeightsOptions options = {});

}  // namespace muster::zoo
