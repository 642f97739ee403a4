#pragma once

#include <cstddef>
#include <string>

namespace muster::stores {

/// Takes memory for so many bytes, in huge pages where the system has them to give: touching a
/// range of a file for the first time page by page costs as much as copying it.
void reserve_large(std::string& buffer, std::size_t bytes);

}  // namespace muster::stores
