#pragma once

#include "muster/muster.h"

/// The rows of CSV files, as batches of the features and the label that the model reads.
muster::InputFn input(const std::vector<muster::Path>& files, std::size_t batch_size);

/// How a server hands rows to the exported model.
muster::ServingInput serving_input();

/// All of the files together.
std::int64_t count_rows(const std::vector<muster::Path>& files);
