#include "muster/cli/records_write.h"
#include "muster/cli/command.h"
#include "muster/cli/records.h"

namespace muster::cli {
namespace {

constexpr Command kWriteCommands[] = {
    {"cifar10", "CIFAR-10, binary or python version: train, validation and eval files",
     add_write_cifar10},
    {"mnist", "MNIST's IDX files: train, validation and eval files", add_write_mnist},
    {"csv", "a CSV file: one feature a column, split into train and validation", add_write_csv},
    {"images", "JPEG, PNG and WebP files in folders of classes or of a CSV file", add_write_images},
    {"npy", "numpy arrays: one feature an array, split into train and validation", add_write_npy},
};

}  // namespace

void add_records_write(CLI::App& command) { add_commands(command, kWriteCommands); }

}  // namespace muster::cli
