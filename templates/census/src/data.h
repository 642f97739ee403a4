#pragma once

#include "muster/muster.h"

/// The fields of a row of the Census Income data, of which income_bracket is the label.
std::vector<muster::CsvField> fields();

/// The people of CSV files in batches, with what the model's columns read of them made beside
/// training. Training shuffles; people to predict for may have an empty income_bracket.
muster::InputFn input(const std::vector<muster::Path>& files, std::size_t batch_size);

/// How a server hands people to the exported model: a tensor per feature.
muster::ServingInput serving_input();

/// All of the files together.
std::int64_t count_rows(const std::vector<muster::Path>& files);
