#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace muster {

/// The sorted table that a bundle's index is: LevelDB's table format with the settings TensorFlow
/// uses, so equal rows make equal bytes.
std::string build_index_table(const std::map<std::string, std::string, std::less<>>& rows);

/// Callback that receives each row; the views last until it returns.
using TableRowFn = std::function<void(std::string_view key, std::string_view value)>;

/// Hands over the rows of a table, in the order of their keys. `bytes` may be anything: what is no
/// whole table throws DataLoss with the byte offset. Only fuzzing skips the checksums.
void read_index_table(std::string_view bytes, const TableRowFn& row, bool verify_checksums = true);

}  // namespace muster
