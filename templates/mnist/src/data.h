#pragma once

#include "muster/muster.h"

constexpr std::int64_t kSide = 28;
constexpr std::int64_t kPixels = kSide * kSide;
constexpr std::int64_t kClasses = 10;

/// The pictures of TFRecord files in batches: `image` [n, 784] in 0..1, and labels. Training
/// shuffles them; files to predict over need no labels.
muster::InputFn input(const std::vector<muster::Path>& files, std::size_t batch_size);

/// How a server hands pictures to the exported model.
muster::ServingInput serving_input();

/// All of the files together.
std::int64_t count_rows(const std::vector<muster::Path>& files);
