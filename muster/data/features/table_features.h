#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>

#include "muster/data/features/features.h"
#include "muster/data/tables/table.h"

namespace muster {

/// Values that missing ones become, by column.
using TableDefaults = std::map<std::string, std::variant<std::int64_t, double, std::string>>;

/// The columns of rows under their names: one value a row as a tensor or strings of [rows], a list
/// a row as a ragged column (whole numbers as int64) or ragged strings. Booleans are int32, 0 or 1.
/// Throws InvalidArgument, naming the file and the row, for a missing value of a column without a
/// default; also for files whose columns differ, lists of lists, and a default that does not fit
/// its column's type or has no column.
Features to_features(std::span<const TableRow> rows, const TableDefaults& defaults = {});

}  // namespace muster
