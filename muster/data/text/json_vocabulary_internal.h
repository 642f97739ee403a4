#pragma once

#include <string_view>

#include "muster/data/text/token_table_internal.h"

namespace muster::internal {

/// A JSON object of tokens and ids, from 0 on without gaps. Throws InvalidArgument, with the offset
/// or the token, for anything else.
TokenTable read_json_vocabulary(std::string_view json);

}  // namespace muster::internal
