#pragma once

/// Checkpoints and the tensor bundles in them, without libtorch.

#include "muster/checkpoint/bundle_reader.h"
#include "muster/checkpoint/bundle_writer.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/checkpoint_hash.h"
