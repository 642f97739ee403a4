#pragma once

/// A signature into an ONNX model, without libtorch.

#include "muster/onnx/convert.h"
#include "muster/onnx/model.h"
