#pragma once

/// Models by name, with the parameter names of torchvision, transformers and torch.nn, and the
/// weights that were published for them.

#include "muster/nn/zoo/bert.h"
#include "muster/nn/zoo/gpt2.h"
#include "muster/nn/zoo/image_input.h"
#include "muster/nn/zoo/llama.h"
#include "muster/nn/zoo/load_published_weights.h"
#include "muster/nn/zoo/make.h"
#include "muster/nn/zoo/mobilenet_v2.h"
#include "muster/nn/zoo/network.h"
#include "muster/nn/zoo/recurrent_classifier.h"
#include "muster/nn/zoo/resnet.h"
#include "muster/nn/zoo/sampling.h"
#include "muster/nn/zoo/text_decoder.h"
#include "muster/nn/zoo/unet.h"
#include "muster/nn/zoo/vision_transformer.h"
