#pragma once

#include "muster/muster.h"

constexpr std::int64_t kSide = 32;
constexpr std::int64_t kChannels = 3;
constexpr std::int64_t kClasses = 10;

/// The pictures of TFRecord files in batches: `image` [n, 32, 32, 3] of bytes, and labels.
/// Training shuffles, shifts and mirrors them.
muster::InputFn input(const std::vector<muster::Path>& files, std::size_t batch_size);

/// How a server hands pictures to the exported model.
muster::ServingInput serving_input();

/// All of the files together.
std::int64_t count_rows(const std::vector<muster::Path>& files);
