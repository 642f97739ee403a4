#pragma once

#include <string>
#include <string_view>

namespace muster::tuning {

/// A JSON object with a last field more, `"crc32c": "9ae0daaf"`: the CRC-32C of the text with zeros
/// instead of these eight digits. Throws InvalidArgument for what is no JSON object with
/// fields.
std::string with_checksum(std::string_view json);

/// Throws DataLoss unless the text is as with_checksum() wrote it.
void check_checksum(std::string_view json);

}  // namespace muster::tuning
