#pragma once

/// Columns of records into named tensors.

#include "muster/features/batch.h"
#include "muster/features/collate.h"
#include "muster/features/column_set.h"
#include "muster/features/feature_column.h"
#include "muster/features/features.h"
#include "muster/features/image_augmentation.h"
#include "muster/features/parse_examples.h"
#include "muster/features/sequence_input.h"
