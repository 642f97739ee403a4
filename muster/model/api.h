#pragma once

/// What a model of one's own is made of. It brings torch::nn::Module, which takes seconds to
/// compile; muster/muster.h does without.

#include "muster/model/dense.h"
#include "muster/model/dropout.h"
#include "muster/model/estimator_spec.h"
#include "muster/model/export_output.h"
#include "muster/model/head.h"
#include "muster/model/initializer.h"
#include "muster/model/input_layer.h"
#include "muster/model/linear_model.h"
#include "muster/model/metric.h"
#include "muster/model/metric_of_sums.h"
#include "muster/model/metric_set.h"
#include "muster/model/metrics.h"
#include "muster/model/mlp.h"
#include "muster/model/mode.h"
#include "muster/model/model.h"
#include "muster/model/model_factory.h"
#include "muster/model/module_variables.h"
#include "muster/model/random_scope.h"
#include "muster/model/resnet.h"
#include "muster/model/seeded_module.h"
#include "muster/model/wide_and_deep.h"
