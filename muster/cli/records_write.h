#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// The data sets that `muster records write` knows, one file each.
void add_write_cifar10(CLI::App& command);
void add_write_mnist(CLI::App& command);
void add_write_csv(CLI::App& command);
void add_write_images(CLI::App& command);
void add_write_npy(CLI::App& command);

}  // namespace muster::cli
