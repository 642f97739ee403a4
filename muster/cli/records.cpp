#include "muster/cli/records.h"

#include "muster/cli/command.h"

namespace muster::cli {
namespace {

constexpr Command kRecordsCommands[] = {
    {"write", "convert a data set to TFRecord files", add_records_write},
    {"show", "print the records of a file", add_records_show},
    {"analyze", "print counts, missing values, ranges and distributions of the columns of files",
     add_records_analyze},
    {"verify", "verify all checksums and report each error with its offset", add_records_verify},
    {"index", "write the side index FILE.index, for random access and exact counts",
     add_records_index},
    {"synth", "generate a synthetic data set with a known best result", add_records_synth},
    {"bench", "measure how fast a file is read, compared with memcpy", add_records_bench},
};

}  // namespace

void add_records(CLI::App& command) { add_commands(command, kRecordsCommands); }

}  // namespace muster::cli
